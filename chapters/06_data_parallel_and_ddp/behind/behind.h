// behind.h: the tables and pictures of the chapter. `rows`: of each device. (What is modelled is
// left out with --machine none.)
#pragma once

#include "common/device/trace.h"
#include "common/model/machine.h"
#include "../ddp.h"
#include "../dp.h"
#include "../networks.h"

// one_step.c: a recorded step of DP or DDP on modelled devices.
enum { MOST_RECORDED = 64 }; // devices

typedef struct Setup {
    bool is_ddp;
    const NetworkKind *network;
    int classes, k, rows; // rows: of each device
    DpGathers gathers;    // of DP
    DdpOptions options;   // of DDP
} Setup;

typedef struct StepRecord {
    Setup setup;
    Device *devices[MOST_RECORDED];
    TraceSpan *spans; // none with --machine none
    int count;
    double seconds; // from the begin of the first span to the end of the last; NAN without spans
    // What device i sends and receives, which is what the formulas say, or the program ends; and
    // the most bytes that it uses at a time.
    Traffic total[MOST_RECORDED];
    size_t memory[MOST_RECORDED];
    int num_buckets; // of DDP
} StepRecord;

// The second step of a training (the first one allocates memory), modelled on `machine`; NULL:
// bytes and memory, but no times. For step_record_free().
StepRecord *record_one_step(const Setup *setup, const Machine *machine);
void step_record_free(StepRecord *r);

// How long rank 0's communication queue is at work, and during how much of that it computes, too.
typedef struct Exchange {
    double seconds, hidden;
} Exchange;
Exchange exchange_of(const StepRecord *r);

// traffic_and_memory.c: bytes that a device of DP and a rank of DDP send and receive in a step of
// LeNet; memory that each needs, with 10 classes and with 10,000 (returns by what factor device 0
// of DP needs more than device 1, with 10,000); images that ranks get in each mode of the sampler.
void print_traffic(int k, int rows);
double print_memory(int k, int rows);
void print_samplers(void);

// timelines.c: a step of ResNet-18 by DP, by DDP with one bucket, and with buckets of bucket_bytes:
// a table, and a picture, book_timeline("_modelled.png"). Returns how many times as long as DDP's
// with buckets DP's step is; NAN with --machine none.
double compare_timelines(int k, int rows, size_t bucket_bytes);

// timelines.c, for the figure to move: one step of DDP with buckets of this size as a picture (SVG)
// of rank 0's two queues, and how long it is, also with one bucket and without an exchange (CSV).
extern const char overlap_names[]; // "none|lenet|.."
void model_one_overlap(const char *network, int k, int rows, size_t bucket_bytes, const char *csv,
                       const char *svg);

// bucket_sizes.c: a table of a step of DDP with buckets from 4 KiB to one of everything, of both
// networks, and of ResNet-18 on 64 P100 in hosts of four; the same also on another machine as
// book_output("_buckets.csv") and its plot, book_output("_buckets.png"). Returns whether LeNet's
// step is shorter with the smallest buckets than with one.
bool sweep_bucket_sizes(int k, int rows);

// claims.c: a table of six claims about DP and DDP, each with a verdict and the figure that
// decides. Ends the program with an error if a figure is not as the verdict says. Without values
// the claims that need them are left open. X and y: a minibatch on the host.
void print_claims(int k, int rows, const Tensor *X, const Tensor *y);
