// adam.c: one step of Adam. As in sgd.c, gradients are sums over the minibatch, divided here, once.
#include "cpu.h"

#include <math.h>

CPU_KERNEL(adam) {
    float *param = a->param, *grad = a->grad, *mean = a->mean, *square = a->square;
    float beta1 = a->beta1, beta2 = a->beta2, per_row = 1 / (float)a->batch_size;
    float rate = a->rate, root = 1 / a->root, eps = a->eps;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) {
        float g = grad[i] * per_row;
        mean[i] = beta1 * mean[i] + (1 - beta1) * g;
        square[i] = beta2 * square[i] + (1 - beta2) * g * g;
        param[i] -= rate * mean[i] / (sqrtf(square[i]) * root + eps);
        grad[i] = 0;
    }
}
