// accumulate.h: gradient accumulation: a large minibatch on one device, part after part, with the
// bits of as many ranks as there are parts.
#ifndef ACCUMULATE_H
#define ACCUMULATE_H

#include "common/data/fashion_mnist.h"
#include "common/tensor/nn.h"

typedef enum {
    PARTS_APART,    // each part's gradients for themselves, then added: ((0 + 1) + 2) + 3
    PARTS_IN_PLACE, // backward adds them to what the parts before have left
} AccumulateOrder;

typedef struct Accumulator {
    Module *net;
    Device *device;
    AccumulateOrder order;
    Tensor *sum;  // gradients of the parts before the last one; all parameters, as one vector
    Tensor *loss; // (1): summed over the rows of all parts
    int parts;
    long rows; // of these parts
} Accumulator;

// The network must be initialize()d, and outlive it; it is placed on the device. No parts yet. For
// accumulator_free().
Accumulator accumulator_new(Module *net, Device *device, AccumulateOrder order);
void accumulator_free(Accumulator *a);

// One more part: forward and backward of X (n,...), y (n), on the host. Begins a step of the
// device. Enqueued.
void accumulate(Accumulator *a, const Tensor *X, const Tensor *y);

// A whole minibatch in so many parts, those of split_batch(): part i is the shard of device i.
void accumulate_batch(Accumulator *a, const Tensor *X, const Tensor *y, int parts);

// Now the network's gradients are the sum over all parts, for sgd_step() or another update, which
// divides once by the rows that this returns. Sets *loss (NULL: not wanted; to know it, it waits)
// to the loss summed over these rows. What comes next is the first part of another minibatch.
int accumulate_end(Accumulator *a, double *loss);

// ---- accumulate_shown.c --------------------------------------------------------------------------

// LeNet, some steps on one device in four parts, and on four devices by each of chapter 2's
// algorithms: in how many parameters do they differ? A table, and why. Takes some seconds.
void show_accumulation(const Dataset *train, int batch_size, float lr, uint64_t seed);

#endif
