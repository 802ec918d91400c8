// sampler.h: which images each rank trains on, and loads. Source: PyTorch's DistributedSampler
// (torch/utils/data/distributed.py).
#pragma once

#include "common/data/fashion_mnist.h"

// What to do if k does not divide the number of images.
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

// From now on, the order is the one for this epoch. All ranks compute it from seed + epoch. Without
// this call, each epoch has the same order as the first.
void sampler_set_epoch(DistributedSampler *sampler, int epoch);

// How many images this rank gets, and which ones: the images at places rank, rank + k, rank + 2 k,
// ... in the order.
int sampler_count(const DistributedSampler *sampler);
void sampler_indices(const DistributedSampler *sampler, int indices[]);

// The images that a rank loads by itself, as its sampler says.
typedef struct Loader {
    DistributedSampler sampler;
    const Dataset *data;
    int *indices, next; // of this epoch, and how many of them were taken
    Tensor *X, *y;      // on the host, with enough rows for any step
} Loader;

// For all images of `data`, at most `rows` in a step. For loader_free().
Loader loader_new(const Dataset *data, DistributedSampler sampler, int rows);
void loader_free(Loader *l);

// Call this before the first loader_next() of each epoch; epochs count from 0.
void loader_start(Loader *l, int epoch);
// The next `rows` images, or all that are left (perhaps none): X (n,1,rows,cols) and y (n), in the
// device's arena. Wait for the device before the next call, because that call overwrites the
// loader's memory.
void loader_next(Loader *l, int rows, Device *device, Tensor **X, Tensor **y);
