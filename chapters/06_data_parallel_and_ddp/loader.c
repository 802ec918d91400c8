// loader.c: see loader.h.
//
// What a rank does before each step: it copies its images into memory of the host, and from there
// to its device. (Each rank has its own loader, as in PyTorch.)
#include "loader.h"

#include "common/base/error.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>

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
