// sgd.c: one step of minibatch stochastic gradient descent. Gradients are sums over the minibatch,
// so they are divided by its size here, once.
#include "cpu.h"

CPU_KERNEL(sgd) {
    float *param = a->param, *grad = a->grad, rate = a->lr / (float)a->batch_size;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) {
        param[i] -= rate * grad[i];
        grad[i] = 0;
    }
}
