// drawn.c: images and labels from random numbers, so that cases need no data set.
#include "drawn.h"
#include "common/base/error.h"
#include "common/program/facts.h"

#include <stdlib.h>

Dataset *draw_images(int count, bool black) {
    enum { SIDE = 28 };
    Dataset *data = xcalloc(1, sizeof *data);
    *data = (Dataset){.count = count, .rows = SIDE, .cols = SIDE};
    data->images = xcalloc((size_t)count, SIDE * SIDE);
    data->labels = xcalloc((size_t)count, 1);
    for (int i = 0; i < count; i++) data->labels[i] = (uint8_t)(draw(0, 9) * draw(0, 9) / 9);
    for (int i = 0; i < SIDE * SIDE * count && !black; i++) data->images[i] = (uint8_t)draw(0, 255);
    return data;
}

void record_biases(int part, const Replicas *r) {
    for (int i = 0; i < r->k; i++) {
        float biases[FASHION_MNIST_CLASSES];
        tensor_read(r->params[i][LENET_PARAMS - 1], biases);
        record_floats(part, biases, FASHION_MNIST_CLASSES, 1e-4, "last biases on device %d", i);
    }
}

// Rounding may put a pixel that is nearly zero on the other side of ReLU, hence the tolerance.
void record_change(int part, const Replicas *r, const float start[]) {
    for (int i = 0; i < r->k; i++) {
        float *values = tensor_values(r->params[i][0]);
        size_t n = numel(r->params[i][0]);
        for (size_t j = 0; j < n; j++) values[j] -= start[j];
        record_floats(part, values, n, 5e-2, "change of the first weights on device %d", i);
        free(values);
    }
}
