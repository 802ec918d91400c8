// gelu.c: x times the probability that a normally distributed number is below x, and its backward,
// which computes that probability again: this takes less time than to fetch it from memory.
#include "cpu.h"
#include "fast/exponential.h"

static const float ROOT_OF_HALF = 0.707106781f, DENSITY_AT_0 = 0.398942280f; // 1 / sqrt(2 pi)

INLINE Vec probability_below(Vec x) { return 0.5f + 0.5f * erf_of(x * ROOT_OF_HALF); }

// P(x) + x p(x). The compiler sees that erf_of() needs the same exp_of(), and computes it once.
INLINE Vec slope_at(Vec x) {
    Vec z = x * ROOT_OF_HALF;
    return probability_below(x) + x * (DENSITY_AT_0 * exp_of(-(z * z)));
}

// How many of a vector's numbers are before the end. (Those at the end, too, go through the vector
// functions: a number's result must not depend on where the number is.)
static inline int lanes_from(size_t i, size_t n) { return n - i < VL ? (int)(n - i) : VL; }

CPU_KERNEL(gelu_forward) {
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i += VL) {
        int lanes = lanes_from(i, a->n);
        Vec x = some_at(a->X + i, lanes);
        some_to(a->Y + i, x * probability_below(x), lanes);
    }
}

CPU_KERNEL(gelu_backward) {
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (a->n > PARALLEL_FLOATS)
    for (size_t i = 0; i < a->n; i += VL) {
        int lanes = lanes_from(i, a->n);
        Vec d = some_at(a->dY + i, lanes) * slope_at(some_at(a->X + i, lanes));
        if (a->beta != 0) d += some_at(a->dX + i, lanes);
        some_to(a->dX + i, d, lanes);
    }
}
