// sampler.h: which images each rank trains on, and evaluates. Source: PyTorch's DistributedSampler
// (torch/utils/data/distributed.py).
#ifndef SAMPLER_H
#define SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

// What is done if k ranks do not divide the images.
typedef enum {
    SAMPLER_PAD,   // all ranks get as many: the first images of the order are taken once more
    SAMPLER_DROP,  // all ranks get as many: drop_last, the last images of the order are left out
    SAMPLER_EXACT, // each image once: some ranks have one more. PyTorch has no such mode
} SamplerMode;

typedef struct DistributedSampler {
    int num_images, k, rank;
    SamplerMode mode;
    bool shuffle;
    uint64_t seed;
    int epoch; // see sampler_set_epoch()
} DistributedSampler;

// From now on the order is that of this epoch: all ranks make it from seed + epoch. Without it each
// epoch has the order of the first.
void sampler_set_epoch(DistributedSampler *sampler, int epoch);

// How many images this rank gets; at most sampler_most().
int sampler_count(const DistributedSampler *sampler);
int sampler_most(const DistributedSampler *sampler); // of all ranks

// Their numbers, sampler_count() of them: those at places rank, rank + k, rank + 2 k, ... of the
// order.
void sampler_indices(const DistributedSampler *sampler, int indices[]);

#endif
