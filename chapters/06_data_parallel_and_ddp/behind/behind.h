// behind.h: the tables and pictures of the chapter. `rows`: of each device. (What is modelled is
// left out with --machine none.)
#ifndef CHAPTER_06_BEHIND_H
#define CHAPTER_06_BEHIND_H

#include "common/data/fashion_mnist.h"
#include "common/program/flags.h"
#include "one_step.h"

// tables.c: a table of the bytes that a device of DP and a rank of DDP send and receive in a step
// of LeNet, on 2, 4 and 8 devices.
void print_traffic(int rows);

// tables.c: a table of the memory of device 0 of DP, of another device of DP and of a rank of DDP,
// with 10 classes and with 10,000. Returns how many times as much memory as another device device 0
// of DP needs with 10,000.
double print_memory(int k, int rows);

// tables.c: a table of the images that 4 ranks get of 10, in each mode of the sampler.
void print_samplers(void);

// own_images.c: trains LeNet by DDP on 3 ranks, each of which loads its own images. Prints a line
// for each epoch, and a table of the test accuracy with each mode of the sampler.
void train_on_own_images(const Flags *flags);

// timelines.c: a step of ResNet-18 by DP, by DDP with one bucket, and by DDP with buckets of
// bucket_bytes: a table, a picture, book_timeline("_modelled.png"), and a Chrome trace,
// book_output("_modelled.json"). Returns how many times as long as DDP's with buckets DP's step is;
// NAN with --machine none.
double compare_timelines(int k, int rows, size_t bucket_bytes);

// timelines.c, for the figure to move: one step of DDP with buckets of this size as a picture (SVG)
// of rank 0's two queues, and how long it is, also with one bucket and without an exchange (CSV).
extern const char overlap_names[]; // "none|lenet|.."
void model_one_overlap(const char *network, int k, int rows, size_t bucket_bytes, const char *csv,
                       const char *svg);

// bucket_sizes.c: a table of a step of DDP with buckets from 4 KiB to one of everything, of both
// networks; the same also on another machine as book_csv("_buckets.csv") and its plot,
// book_output("_buckets.png"). Returns whether LeNet's step is shorter with the smallest buckets
// than with one.
bool sweep_bucket_sizes(int k, int rows);

// claims.c: a table of six claims about DP and DDP, each with a verdict and the figure that
// decides. Ends the program with an error if a figure is not as the verdict says. Without values
// the claims that need them are left open. X and y: a minibatch on the host.
void print_claims(int k, int rows, const Tensor *X, const Tensor *y);

#endif
