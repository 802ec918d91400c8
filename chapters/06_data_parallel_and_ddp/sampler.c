// sampler.c: which images each rank gets, and loads.
#include "sampler.h"

#include "common/base/error.h"
#include "common/tensor/random.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>

void sampler_set_epoch(DistributedSampler *sampler, int epoch) { sampler->epoch = epoch; }

int sampler_count(const DistributedSampler *s) {
    int whole = s->num_images / s->k, left = s->num_images % s->k;
    if (s->mode == SAMPLER_EXACT) return whole + (s->rank < left);
    return s->mode == SAMPLER_PAD && left > 0 ? whole + 1 : whole;
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

// Before each step a rank copies its images into memory of the host, and from there to its device.

Loader loader_new(const Dataset *data, DistributedSampler sampler, int rows) {
    Loader l = {.data = data, .sampler = sampler};
    l.sampler.num_images = data->count;
    l.indices = xmalloc(sizeof *l.indices * (size_t)(data->count + 1));
    l.X = tensor_new(host(), rows, 1, data->rows, data->cols);
    l.y = tensor_new(host(), rows);
    return l;
}

void loader_free(Loader *l) {
    free(l->indices);
    tensor_free(l->X);
    tensor_free(l->y);
}

void loader_start(Loader *l, int epoch) {
    sampler_set_epoch(&l->sampler, epoch);
    sampler_indices(&l->sampler, l->indices);
    l->next = 0;
}

void loader_next(Loader *l, int rows, Device *device, Tensor **X, Tensor **y) {
    size_t pixels = (size_t)(l->data->rows * l->data->cols);
    int left = sampler_count(&l->sampler) - l->next, count = left < rows ? left : rows;
    for (int r = 0; r < count; r++) {
        int image = l->indices[l->next + r];
        for (size_t p = 0; p < pixels; p++)
            l->X->data[(size_t)r * pixels + p] =
                (float)l->data->images[(size_t)image * pixels + p] / 255;
        l->y->data[r] = l->data->labels[image];
    }
    l->next += count;
    *X = rows_on(l->X, (Range){0, count}, device);
    *y = rows_on(l->y, (Range){0, count}, device);
}
