// winograd_transforms.h: the transforms of Winograd's method for one row or column of VL tiles.
// Call them WITH_POINTS() only, so that they are compiled for each size of a piece. For
// winograd_tiles.c alone; winograd.c says what they are for.
#pragma once

#include <stdbool.h>
#include "vector.h"

enum { MOST = 8, MOST_POINTS = MOST * MOST }; // the largest piece

// ---- the points --------------------------------------------------------------------------------
//
// Two polynomials can be multiplied by multiplying their values at some points, one product for
// each point. The coefficients of the result are sums of shifted coefficients, as in a convolution
// backward. So a convolution forward is the transpose of a product of polynomials. The matrices
// here are the transposes of those that evaluate polynomials and turn values into coefficients.
//
// The points are 0, pairs p and -p, and "infinity", which means the highest coefficient. The values
// of p can be chosen. Small whole numbers need the fewest operations, but then numbers are added
// with weights from 1 to 8 or more, which costs accuracy. For pieces of 6, 3/4 and 3/2 have half
// the errors of the usual 1 and 2, and a third of the largest error (64 channels, normal numbers).
// For pieces of 8, we found nothing simple that is better than the usual points.
typedef struct Points {
    int piece, pairs;
    float p[3];
    float all[4];       // the coefficients of (x^2 - p0^2)(x^2 - p1^2) ..., from the lowest one
    float others[3][3]; // the same without one of the pairs
    float weight[MOST]; // of a kernel's values: 1 / (the product of the distances to other points)
} Points;

static const Points SIX = {
    .piece = 6,
    .pairs = 2,
    .p = {3.0f / 4, 3.0f / 2},
    .all = {81.0f / 64, -45.0f / 16, 1},
    .others = {{-9.0f / 4, 1}, {-9.0f / 16, 1}},
    .weight = {64.0f / 81, -128.0f / 243, -128.0f / 243, 32.0f / 243, 32.0f / 243, 1},
};

static const Points EIGHT = {
    .piece = 8,
    .pairs = 3,
    .p = {1.0f / 2, 1, 2},
    .all = {-1, 21.0f / 4, -21.0f / 4, 1},
    .others = {{4, -5, 1}, {1, -17.0f / 4, 1}, {1.0f / 4, -5.0f / 4, 1}},
    .weight = {-1, 32.0f / 45, 32.0f / 45, -2.0f / 9, -2.0f / 9, 1.0f / 90, 1.0f / 90, 1},
};

// ---- the transforms, in place, of one row or column ---------------------------------------------

// The values of a polynomial with n coefficients at the points: the matrix A. For kernels the
// values are weighted, which makes it G.
INLINE void values(const Points *at, Vec *x, int n, bool weighted) {
    Vec c[MOST];
    for (int i = 0; i < n; i++) c[i] = x[i];
    for (int pair = 0; pair < at->pairs; pair++) {
        float p = at->p[pair], power = weighted ? at->weight[2 * pair + 1] : 1;
        Vec even = power * c[0], odd = power * p * c[1];
        power *= p * p;
        for (int i = 2; i < n; i++, power *= p)
            if (i % 2)
                odd += power * c[i];
            else
                even += power * c[i];
        x[2 * pair + 1] = even + odd;
        x[2 * pair + 2] = even - odd;
    }
    x[0] = (weighted ? at->weight[0] : 1) * c[0];
    x[at->piece - 1] = c[n - 1];
}

// The transpose, from values to n coefficients: A^T, and G^T.
INLINE void coefficients(const Points *at, Vec *x, int n, bool weighted) {
    Vec c[MOST] = {(weighted ? at->weight[0] : 1) * x[0]}, last = x[at->piece - 1];
    for (int pair = 0; pair < at->pairs; pair++) {
        Vec plus = x[2 * pair + 1], minus = x[2 * pair + 2];
        Vec sum = plus + minus, difference = plus - minus;
        float power = weighted ? at->weight[2 * pair + 1] : 1;
        for (int i = 0; i < n; i++, power *= at->p[pair])
            c[i] += power * (i % 2 ? difference : sum);
    }
    for (int i = 0; i < n; i++) x[i] = c[i];
    x[n - 1] += last;
}

// B^T
INLINE void of_input(const Points *at, Vec *x) {
    Vec d[MOST];
    int pairs = at->pairs;
    for (int i = 0; i < at->piece; i++) d[i] = x[i];
    for (int pair = 0; pair < pairs; pair++) {
        const float *others = at->others[pair];
        Vec even = d[2 * pairs], odd = d[2 * pairs - 1];
        for (int i = 0; i < pairs - 1; i++) {
            even += others[i] * d[2 * i + 2];
            odd += others[i] * d[2 * i + 1];
        }
        x[2 * pair + 1] = even + at->p[pair] * odd;
        x[2 * pair + 2] = even - at->p[pair] * odd;
    }
    Vec first = d[2 * pairs], last = d[2 * pairs + 1];
    for (int i = 0; i < pairs; i++) {
        first += at->all[i] * d[2 * i];
        last += at->all[i] * d[2 * i + 1];
    }
    x[0] = first;
    x[at->piece - 1] = last;
}

// B
INLINE void of_input_gradient(const Points *at, Vec *x) {
    Vec first = x[0], last = x[at->piece - 1], d[MOST];
    int pairs = at->pairs;
    for (int i = 0; i <= pairs; i++) {
        d[2 * i] = at->all[i] * first;
        d[2 * i + 1] = at->all[i] * last;
    }
    for (int pair = 0; pair < pairs; pair++) {
        Vec plus = x[2 * pair + 1], minus = x[2 * pair + 2];
        Vec even = plus + minus, odd = at->p[pair] * (plus - minus);
        for (int i = 0; i < pairs; i++) {
            d[2 * i + 2] += at->others[pair][i] * even;
            d[2 * i + 1] += at->others[pair][i] * odd;
        }
    }
    for (int i = 0; i < at->piece; i++) x[i] = d[i];
}

// Calls a function with the points for a piece of 6 or 8. The function is compiled for each, with
// constants.
#define WITH_POINTS(piece, function, ...)                                                          \
    ((piece) == SIX.piece ? function(&SIX, __VA_ARGS__) : function(&EIGHT, __VA_ARGS__))
