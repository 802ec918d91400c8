// winograd_tiles.c: see winograd_tiles.h.
#include "winograd_tiles.h"
#include "winograd_transforms.h"

// ---- n x n pixels of each tile: x[i * piece + j] is pixel (i,j) ---------------------------------

INLINE void gather(const Points *at, const float *const lane[VL], size_t width, int n, Vec *x) {
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int j = 0; j < n; j += n == 6 ? 2 : 4) { // 6 are 4, and the last 4 again
            if (j + 4 > n) break;
            Vec r[4];
            load_transposed(lane, (size_t)i * width + (size_t)j, r);
            UNROLL for (int k = 0; k < 4; k++) x[i * at->piece + j + k] = r[k];
        }
    }
}

INLINE void scatter(const Points *at, const Vec *x, int n, float *const lane[VL], size_t width,
                    bool add) {
    UNROLL for (int i = 0; i < n; i++) {
        UNROLL for (int j = 0; j < n; j += 4) {
            Vec r[4];
            UNROLL for (int k = 0; k < 4; k++) r[k] =
                j + k < n ? x[i * at->piece + j + k] : (Vec){0};
            store_transposed(r, lane, (size_t)i * width + (size_t)j, add);
        }
    }
}

// ---- the same of kernels, whose k * k numbers lie one behind the other
// ---------------------------

INLINE void gather_kernels(const Points *at, const float *const lane[VL], int k, Vec *x) {
    const int size = k * k;
    UNROLL for (int first = 0; first < size; first += 4) {
        int start = first + 4 <= size ? first : size - 4; // the last ones once more
        Vec r[4];
        load_transposed(lane, (size_t)start, r);
        UNROLL for (int i = 0; i < 4; i++) x[(start + i) / k * at->piece + (start + i) % k] = r[i];
    }
}

INLINE void scatter_kernels(const Points *at, const Vec *x, int k, float *const lane[VL]) {
    const int size = k * k;
    UNROLL for (int first = 0; first < size; first += 4) {
        int start = first + 4 <= size ? first : size - 4;
        Vec r[4];
        UNROLL for (int i = 0; i < 4; i++) r[i] = x[(start + i) / k * at->piece + (start + i) % k];
        store_transposed(r, lane, (size_t)start, false);
    }
}

// ---- points ------------------------------------------------------------------------------------

INLINE void load(const Points *at, const float *points, size_t point, Vec *x) {
    UNROLL for (int p = 0; p < at->piece * at->piece; p++) x[p] =
        vec_at(points + (size_t)p * point);
}

INLINE void store(const Points *at, const Vec *x, float *points, size_t point) {
    UNROLL for (int p = 0; p < at->piece * at->piece; p++) vec_to(points + (size_t)p * point, x[p]);
}

INLINE void input_at(const Points *at, const float *const lane[VL], size_t width, float *points,
                     size_t point) {
    Vec x[MOST_POINTS];
    gather(at, lane, width, at->piece, x);
    of_input_2d(at, x);
    store(at, x, points, point);
}

INLINE void output_gradient_at(const Points *at, const float *const lane[VL], size_t width,
                               float *points, size_t point) {
    Vec x[MOST_POINTS];
    gather(at, lane, width, TILE, x);
    values_2d(at, x, TILE, false);
    store(at, x, points, point);
}

INLINE void output_at(const Points *at, const float *points, size_t point, float *const lane[VL],
                      size_t width) {
    Vec x[MOST_POINTS];
    load(at, points, point, x);
    coefficients_2d(at, x, TILE, false);
    scatter(at, x, TILE, lane, width, false);
}

INLINE void input_gradient_at(const Points *at, const float *points, size_t point,
                              float *const lane[VL], size_t width) {
    Vec x[MOST_POINTS];
    load(at, points, point, x);
    of_input_gradient_2d(at, x);
    scatter(at, x, at->piece, lane, width, true);
}

INLINE void kernels_at(const Points *at, const float *const lane[VL], float *points, size_t point) {
    Vec x[MOST_POINTS];
    const int k = at->piece + 1 - TILE;
    gather_kernels(at, lane, k, x);
    values_2d(at, x, k, true);
    store(at, x, points, point);
}

INLINE void kernel_gradients_at(const Points *at, const float *points, size_t point,
                                float *const lane[VL]) {
    Vec x[MOST_POINTS];
    const int k = at->piece + 1 - TILE;
    load(at, points, point, x);
    coefficients_2d(at, x, k, true);
    scatter_kernels(at, x, k, lane);
}

void input_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                     size_t point) {
    WITH_POINTS(piece, input_at, lane, width, points, point);
}
void output_gradient_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                               size_t point) {
    WITH_POINTS(piece, output_gradient_at, lane, width, points, point);
}
void output_from_points(int piece, const float *points, size_t point, float *const lane[VL],
                        size_t width) {
    WITH_POINTS(piece, output_at, points, point, lane, width);
}
void input_gradient_from_points(int piece, const float *points, size_t point, float *const lane[VL],
                                size_t width) {
    WITH_POINTS(piece, input_gradient_at, points, point, lane, width);
}
void kernels_to_points(int piece, const float *const lane[VL], float *points, size_t point) {
    WITH_POINTS(piece, kernels_at, lane, points, point);
}
void kernels_from_points(int piece, const float *points, size_t point, float *const lane[VL]) {
    WITH_POINTS(piece, kernel_gradients_at, points, point, lane);
}
