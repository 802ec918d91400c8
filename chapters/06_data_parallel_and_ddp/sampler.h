// sampler.h: which images each rank trains on, and loads. Source: PyTorch's DistributedSampler
// (torch/utils/data/distributed.py).
#ifndef SAMPLER_H
#define SAMPLER_H

#include "common/data/fashion_mnist.h"

// What is done if k ranks do not divide the images.
typedef enum {
    SAMPLER_PAD,   // all ranks get the same number: the first images of the order are taken again
    SAMPLER_DROP,  // all ranks get the same number: drop_last, the last images are left out
    SAMPLER_EXACT, // each image once: some ranks have one more. PyTorch has no such mode
} SamplerMode;

typedef struct DistributedSampler {
    int num_images, k, rank;
    SamplerMode mode;
    bool shuffle;
    uint64_t seed;
    int epoch; // see sampler_set_epoch()
} DistributedSampler;

// From now on the order is this epoch's, which all ranks compute from seed + epoch. Without it each
// epoch has the order of the first.
void sampler_set_epoch(DistributedSampler *sampler, int epoch);

// How many images this rank gets, and their numbers: the places rank, rank + k, rank + 2 k, ... of
// the order.
int sampler_count(const DistributedSampler *sampler);
void sampler_indices(const DistributedSampler *sampler, int indices[]);

// The images that a rank loads by itself, as its sampler says.
typedef struct Loader {
    DistributedSampler sampler;
    const Dataset *data;
    int *indices, next; // of this epoch, and how many of them were taken
    Tensor *X, *y;      // on the host, as many rows as a step can have
} Loader;

// For all images of `data`, at most `rows` in a step. For loader_free().
Loader loader_new(const Dataset *data, DistributedSampler sampler, int rows);
void loader_free(Loader *l);

// Call this before the first loader_next() of each epoch; epochs count from 0.
void loader_start(Loader *l, int epoch);
// The next `rows` images, or as many as there are (perhaps none), X (n,1,rows,cols) and y (n) in
// the arena of the device. Wait for the device before the next call, which writes into the loader's
// memory again.
void loader_next(Loader *l, int rows, Device *device, Tensor **X, Tensor **y);

#endif
