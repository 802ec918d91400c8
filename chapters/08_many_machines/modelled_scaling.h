// modelled_scaling.h: how well does training scale to hundreds of ranks? Modelled, next to what the
// authors of Horovod measured and published.
#ifndef MODELLED_SCALING_H
#define MODELLED_SCALING_H

#include "layer_tables.h"

// Measured by Horovod's authors, with TensorFlow's own benchmark (64 images on each GPU, made up,
// so none are read), on machines with 4 Pascal GPUs and one card of 25 Gb/s with RoCE each. Images
// per second: github.com/horovod/horovod, README.md of September 2017 (commit d54e3a88); the
// efficiency on 512: docs/benchmarks.rst.
typedef struct PublishedScaling {
    NetworkTable (*network)(void); // as trained: without an auxiliary classifier
    double one;                    // images/s on one GPU
    double sixteen;                // on 16, by Horovod with NCCL and RDMA
    double servers_sixteen;        // on 16, by TensorFlow's own parameter servers
    double efficiency_512;         // images/s on 512 / (512 x images/s on one)
} PublishedScaling;
enum { NUM_PUBLISHED_SCALINGS = 3, PUBLISHED_IMAGES = 64 };
extern const PublishedScaling published_scalings[NUM_PUBLISHED_SCALINGS];

// Modelled, on Horovod's machines (p100-25gbe) whatever the program's --machine: tables for 1 to
// 512 ranks, three ways to exchange, the published figures, and the reasons for each difference.
// With a CSV and a plot, book_csv("_scaling.csv") and book_output("_scaling.png"), so between
// book_begin() and book_end(). Needs no devices and leaves the modelled clock alone. A second.
void show_modelled_scaling(void);

#endif
