// elementwise.c: fill and add. Loops this plain run at the speed of memory; threads help only
// because one core alone does not use all of it.
#include "cpu.h"

CPU_KERNEL(fill) {
    float *x = a->x, value = a->value;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) x[i] = value;
}

CPU_KERNEL(add) {
    float *y = a->y;
    const float *x = a->x;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) y[i] += x[i];
}
