// sampler.c: which images each rank gets.
//
// In DDP nobody scatters minibatches: each rank loads its own. So that no two train on the same
// images, all make the same random order, from the seed and the number of the epoch, and rank r
// takes the places r, r + k, r + 2 k, ... of it.
//
// An allreduce is a meeting, so all ranks must make as many steps. PyTorch sees to it by *padding*
// (some images are taken twice) or by *dropping* (some are left out). For training that hardly
// matters. For a test accuracy it does: some images count twice, or not at all. The
// third way takes each image once. Then some ranks have one image more than others, which our sums
// over rows, divided once, do not mind; in a step for which a rank has no rows, it adds nothing.
#include "sampler.h"

#include "common/base/error.h"
#include "common/tensor/random.h"

#include <stdlib.h>

void sampler_set_epoch(DistributedSampler *sampler, int epoch) { sampler->epoch = epoch; }

int sampler_count(const DistributedSampler *s) {
    int whole = s->num_images / s->k, left = s->num_images % s->k;
    if (s->mode == SAMPLER_EXACT) return whole + (s->rank < left);
    return s->mode == SAMPLER_PAD && left > 0 ? whole + 1 : whole;
}

int sampler_most(const DistributedSampler *s) {
    DistributedSampler first = *s;
    first.rank = 0;
    return sampler_count(&first);
}

void sampler_indices(const DistributedSampler *s, int indices[]) {
    CHECK(s->num_images > 0 && s->rank >= 0 && s->rank < s->k, "a rank is one of 0..k-1");
    int *order = xmalloc(sizeof *order * (size_t)s->num_images), count = sampler_count(s);
    for (int i = 0; i < s->num_images; i++) order[i] = i;
    if (s->shuffle)
        random_order(order, s->num_images, s->seed + (uint64_t)s->epoch, STREAM_SHUFFLE);
    for (int i = 0; i < count; i++) indices[i] = order[(s->rank + i * s->k) % s->num_images];
    free(order);
}
