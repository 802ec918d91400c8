// exchange_times.h: what is measured on ranks of this machine: sums of vectors of many sizes,
// copies into a buffer and back, and the exchange of a whole network's gradients by the chapter's
// fusion.c.
#ifndef EXCHANGE_TIMES_H
#define EXCHANGE_TIMES_H

#include "chapters/06_data_parallel_and_ddp/networks.h"

#include <stdbool.h>
#include <stddef.h>

enum { MOST_GRADIENTS = 160, MOST_ROUNDS = 16, NUM_SIZES = 13, NUM_THRESHOLDS = 10 };

// The same thing, timed again and again.
typedef struct Timings {
    double bytes;
    int n;
    double seconds[MOST_ROUNDS]; // of n rounds
} Timings;

// Of the fusion buffer: from 0 (each gradient goes alone) to Horovod's 128 MiB.
extern const size_t thresholds[NUM_THRESHOLDS];

typedef struct MeasuredNetwork {
    int num_sizes;
    Timings sums[NUM_SIZES], copies[NUM_SIZES]; // of a part of its gradients
    Timings talk;                               // ranks tell each other what is ready
    Timings fused[NUM_THRESHOLDS];              // all of its gradients, by fusion.c,
    long messages[NUM_THRESHOLDS];              // in so many messages
} MeasuredNetwork;

typedef struct Measured {
    MeasuredNetwork of[NUM_NETWORKS];
} Measured;

// A quarter of a minute. Returns NULL, or why nothing could be measured.
const char *measure_exchanges(int ranks, Measured *m);

// For main(): what each of these ranks does; rank 0 leaves the times in a file. Returns its exit
// status.
int measure_as_rank(const char *path);

// The gradients of a network, in the order of its layers. Returns how many.
int gradient_bytes(const NetworkKind *kind, size_t bytes[MOST_GRADIENTS]);

#endif
