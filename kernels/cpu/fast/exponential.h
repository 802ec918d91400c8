// exponential.h: e^x and the error function, for all numbers of a vector at once. libm's functions
// take one number at a time, in ten times as long.
#pragma once

#include "vector.h"

// y 2^n, for a whole number n. A float's exponent is in the bits from 23 on. In two steps, because
// 2^n alone may be too large or too small for a float.
INLINE Vec times_power_of_2(Vec y, Vec n) {
#if defined(__AVX512F__)
    return (Vec)_mm512_scalef_ps((__m512)y, (__m512)n);
#else
    Bits whole = (Bits)(n + 0x1.8p23f) - 0x4b400000, half = whole >> 1;
    return y * (Vec)((half + 127) << 23) * (Vec)((whole - half + 127) << 23);
#endif
}

// e^x = 2^n e^r, with n = x / log 2, rounded to a whole number, and |r| <= log 2 / 2. The
// polynomial for e^r, and log 2 as a sum, are those of Moshier's Cephes library (expf.c, 1989). The
// error is below 1e-7 of the result. Beyond the limits the result is 0 or infinite; a NaN stays
// NaN.
INLINE Vec exp_of(Vec x) {
    x = least_of((Vec){0} + 89, most_of((Vec){0} - 104, x));
    Vec n = (x * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f; // such a sum has no bits behind the point
    Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Vec square = r * r, y = 1.9875691500e-4f * r + 1.3981999507e-3f;
    y = y * square + (8.3334519073e-3f * r + 4.1665795894e-2f);
    y = y * square + (1.6666665459e-1f * r + 5.0000001201e-1f);
    return times_power_of_2(y * square + r + 1, n);
}

// Below 1, x times a polynomial in x^2, by Cephes (ndtrf.c); there the error is at most 1.2e-7 of
// the result. From 1 on, formula 7.1.26 of Abramowitz & Stegun, "Handbook of mathematical
// functions", 1964, whose error is at most 1.5e-7. A NaN stays NaN.
INLINE Vec erf_of(Vec x) {
    Vec size = size_of(x), square = x * x;
    Vec near = 7.853861353e-5f * square - 8.010193625e-4f;
    near = near * square + 5.188327686e-3f;
    near = near * square - 2.685381194e-2f;
    near = near * square + 1.128358515e-1f;
    near = near * square - 3.761262582e-1f;
    near = near * square + 1.128379166f;
    Vec t = 1 / (1 + 0.3275911f * size);
    Vec far = 1.061405429f * t - 1.453152027f;
    far = far * t + 1.421413741f;
    far = far * t - 0.284496736f;
    far = far * t + 0.254829592f;
    far = 1 - far * t * exp_of(-square);
    Bits is_near = size < 1, sign = (Bits)x & INT_MIN;
    return (Vec)(((Bits)(near * x) & is_near) | (((Bits)far | sign) & ~is_near));
}
