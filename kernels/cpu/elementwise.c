// elementwise.c: fill, scale and additions. Loops this plain run at the speed of memory. Threads
// help only because a single core cannot use all of the memory's bandwidth.
#include "cpu.h"

CPU_KERNEL(fill) {
    float *x = a->x, value = a->value;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) x[i] = value;
}

CPU_KERNEL(scale) {
    float *x = a->x, factor = a->factor;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) x[i] *= factor;
}

CPU_KERNEL(add) {
    float *y = a->y;
    const float *x = a->x;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) y[i] += x[i];
}

CPU_KERNEL(add_forward) {
    const float *A = a->A, *B = a->B;
    float *Y = a->Y;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) Y[i] = A[i] + B[i];
}

CPU_KERNEL(add_backward) {
    const float *dY = a->dY;
    float *dX = a->dX;
    bool overwrite = a->beta == 0;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) dX[i] = overwrite ? dY[i] : dX[i] + dY[i];
}
