// relu.c: max(x, 0) and its backward.
#include "cpu.h"

// `x < 0 ? 0 : x` and not `x > 0 ? x : 0`: the first keeps a NaN.
CPU_KERNEL(relu_forward) {
    const float *X = a->X;
    float *Y = a->Y;
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i++) Y[i] = X[i] < 0 ? 0 : X[i];
}

// dY[i] is read even if it is not needed. With `Y[i] > 0 ? dY[i] : 0` the compiler would have to
// keep a jump for each element, which made this loop five times slower.
CPU_KERNEL(relu_backward) {
    const float *Y = a->Y, *dY = a->dY;
    float *dX = a->dX;
    if (a->beta == 0) {
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
        for (size_t i = 0; i < a->n; i++) {
            float d = dY[i];
            dX[i] = Y[i] > 0 ? d : 0;
        }
    } else {
#pragma omp parallel for simd num_threads(lane->threads)                                           \
    schedule(static) if (a->n > PARALLEL_FLOATS)
        for (size_t i = 0; i < a->n; i++) {
            float d = dY[i];
            dX[i] += Y[i] > 0 ? d : 0;
        }
    }
}
