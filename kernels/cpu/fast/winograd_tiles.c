// winograd_tiles.c: transforms tiles and kernels to the points and back, rows first or columns
// first.
//
// A whole tile does not fit the registers, but a row or a column of it does. So each row or column
// is read where it is, transformed in registers, and written where it is needed. Only the array x,
// between rows and columns, goes through memory.
#include "winograd_tiles.h"
#include "winograd_transforms.h"

#include <float.h>

// ---- rows of n pixels of each tile --------------------------------------------------------------

INLINE void gather(const float *const lane[VL], size_t start, int n, Vec *row) {
    UNROLL for (int j = 0; j < n; j += n == 6 ? 2 : 4) { // 6 pixels: the first 4 and the last 4
        if (j + 4 > n) break;
        load_transposed(lane, start + (size_t)j, row + j);
    }
}

// Where tiles overlap, the parts of a number are added in the order of the tiles, even if several
// of these tiles are in one vector. For this, columns (and, in input_gradient_at(), rows) that
// belong to the next tile too come first. So it makes no difference to the bits which tiles share a
// vector.
INLINE void scatter(const Vec *row, int n, float *const lane[VL], size_t start, bool add) {
    UNROLL for (int j = (n - 1) / 4 * 4; j >= 0; j -= 4) {
        Vec r[4];
        UNROLL for (int k = 0; k < 4; k++) r[k] = j + k < n ? row[j + k] : (Vec){0};
        store_transposed(r, lane, start + (size_t)j, add);
    }
}

// ---- kernels, whose k * k numbers follow one another in memory ----------------------------------

INLINE void gather_kernels(const float *const lane[VL], int k, Vec *x) {
    const int size = k * k;
    UNROLL for (int first = 0; first < size; first += 4) // the last four may overlap others
        load_transposed(lane, (size_t)(first + 4 <= size ? first : size - 4),
                        x + (first + 4 <= size ? first : size - 4));
}

INLINE void scatter_kernels(const Vec *x, int k, float *const lane[VL]) {
    const int size = k * k;
    UNROLL for (int first = 0; first < size; first += 4) {
        int start = first + 4 <= size ? first : size - 4;
        Vec r[4];
        UNROLL for (int i = 0; i < 4; i++) r[i] = x[start + i];
        store_transposed(r, lane, (size_t)start, false);
    }
}

// ---- columns: row i of x begins at x[i * piece] -------------------------------------------------

typedef void Transform(const Points *at, Vec *column, int n);
INLINE void column_of_input(const Points *at, Vec *c, int n) { (void)n, of_input(at, c); }
INLINE void column_of_values(const Points *at, Vec *c, int n) { values(at, c, n, false); }
INLINE void column_of_kernel(const Points *at, Vec *c, int n) { values(at, c, n, true); }

// n rows -> the points
INLINE void columns_to_points(const Points *at, const Vec *x, int n, Transform *transform,
                              float *points, size_t point) {
    for (int j = 0; j < at->piece; j++) {
        Vec column[MOST];
        UNROLL for (int i = 0; i < n; i++) column[i] = x[i * at->piece + j];
        transform(at, column, n);
        UNROLL for (int i = 0; i < at->piece; i++)
            vec_to(points + (size_t)(i * at->piece + j) * point, column[i]);
    }
}

INLINE void column_of_input_gradient(const Points *at, Vec *c, int n) {
    (void)n, of_input_gradient(at, c);
}
INLINE void column_of_coefficients(const Points *at, Vec *c, int n) {
    coefficients(at, c, n, false);
}
INLINE void column_of_kernel_gradient(const Points *at, Vec *c, int n) {
    coefficients(at, c, n, true);
}

// the points -> n rows
INLINE void columns_from_points(const Points *at, const float *points, size_t point, int n,
                                Transform *transform, Vec *x) {
    for (int j = 0; j < at->piece; j++) {
        Vec column[MOST];
        UNROLL for (int i = 0; i < at->piece; i++) column[i] =
            vec_at(points + (size_t)(i * at->piece + j) * point);
        transform(at, column, n);
        UNROLL for (int i = 0; i < n; i++) x[i * at->piece + j] = column[i];
    }
}

// ---- tiles and kernels --------------------------------------------------------------------------

INLINE void input_at(const Points *at, const float *const lane[VL], size_t width, float *points,
                     size_t point) {
    Vec x[MOST_POINTS];
    for (int i = 0; i < at->piece; i++) {
        gather(lane, (size_t)i * width, at->piece, x + i * at->piece);
        of_input(at, x + i * at->piece);
    }
    columns_to_points(at, x, at->piece, column_of_input, points, point);
}

INLINE void output_gradient_at(const Points *at, const float *const lane[VL], size_t width,
                               float *points, size_t point) {
    Vec x[MOST_POINTS];
    for (int i = 0; i < TILE; i++) {
        gather(lane, (size_t)i * width, TILE, x + i * at->piece);
        values(at, x + i * at->piece, TILE, false);
    }
    columns_to_points(at, x, TILE, column_of_values, points, point);
}

// Counts one more pixel of each tile.
INLINE void add_pixel(TileSizes *sizes, Vec pixel, float bias) {
    sizes->squares += pixel * pixel;
    sizes->least = least_of(size_of(pixel + bias), sizes->least);
}

INLINE TileSizes output_at(const Points *at, const float *points, size_t point, float bias,
                           float *const lane[VL], size_t width) {
    Vec x[MOST_POINTS];
    TileSizes sizes = {{0}, (Vec){0} + FLT_MAX};
    columns_from_points(at, points, point, TILE, column_of_coefficients, x);
    for (int i = 0; i < TILE; i++) {
        Vec *row = x + i * at->piece;
        coefficients(at, row, TILE, false);
        UNROLL for (int j = 0; j < TILE; j++) add_pixel(&sizes, row[j], bias);
        scatter(row, TILE, lane, (size_t)i * width, false);
    }
    return sizes;
}

INLINE void input_gradient_at(const Points *at, const float *points, size_t point,
                              float *const lane[VL], size_t width) {
    Vec x[MOST_POINTS];
    columns_from_points(at, points, point, at->piece, column_of_input_gradient, x);
    for (int k = 0; k < at->piece; k++) {
        int i = (k + TILE) % at->piece;
        of_input_gradient(at, x + i * at->piece);
        scatter(x + i * at->piece, at->piece, lane, (size_t)i * width, true);
    }
}

INLINE void kernels_at(const Points *at, const float *const lane[VL], float *points, size_t point) {
    Vec kernel[MOST_KERNEL], x[MOST_POINTS];
    const int k = at->piece + 1 - TILE;
    gather_kernels(lane, k, kernel);
    for (int i = 0; i < k; i++) {
        UNROLL for (int j = 0; j < k; j++) x[i * at->piece + j] = kernel[i * k + j];
        values(at, x + i * at->piece, k, true);
    }
    columns_to_points(at, x, k, column_of_kernel, points, point);
}

INLINE void kernel_gradients_at(const Points *at, const float *points, size_t point,
                                float *const lane[VL]) {
    Vec kernel[MOST_KERNEL], x[MOST_POINTS];
    const int k = at->piece + 1 - TILE;
    columns_from_points(at, points, point, k, column_of_kernel_gradient, x);
    for (int i = 0; i < k; i++) {
        coefficients(at, x + i * at->piece, k, true);
        UNROLL for (int j = 0; j < k; j++) kernel[i * k + j] = x[i * at->piece + j];
    }
    scatter_kernels(kernel, k, lane);
}

// ---- with ReLU and pooling ----------------------------------------------------------------------

INLINE Bits ints_of(unsigned char *const lane[VL], size_t at) {
    Bits bits;
    UNROLL for (int i = 0; i < VL; i++) {
        int four;
        memcpy(&four, lane[i] + at, sizeof four);
        bits[i] = four;
    }
    return bits;
}

INLINE void ints_to(Bits bits, unsigned char *const lane[VL], size_t at) {
    UNROLL for (int i = 0; i < VL; i++) {
        int four = bits[i];
        memcpy(lane[i] + at, &four, sizeof four);
    }
}

// Two rows of four pixels become one of two. Byte j of a lane's int holds the gates of column j.
INLINE void pool_rows(const Vec even[4], const Vec odd[4], float bias, Vec Y[2], Bits *gates,
                      TileSizes *sizes) {
    Vec sum[4];
    *gates = (Bits){0};
    UNROLL for (int j = 0; j < 4; j++) add_pixel(sizes, even[j], bias); // in output_at()'s order
    UNROLL for (int j = 0; j < 4; j++) add_pixel(sizes, odd[j], bias);
    UNROLL for (int j = 0; j < 4; j++) {
        Vec a = even[j] + bias, b = odd[j] + bias;
        *gates |= (((a > 0) & 1) | ((b > 0) & 2)) << 8 * j;
        sum[j] = relu_of(a) + relu_of(b);
    }
    UNROLL for (int j = 0; j < 2; j++) Y[j] = (sum[2 * j] + sum[2 * j + 1]) * 0.25f;
}

INLINE TileSizes pooled_at(const Points *at, const float *points, size_t point, float bias,
                           const PooledTiles *to) {
    Vec x[MOST_POINTS];
    TileSizes sizes = {{0}, (Vec){0} + FLT_MAX};
    columns_from_points(at, points, point, TILE, column_of_coefficients, x);
    for (int i = 0; i < TILE / 2; i++) {
        Vec *even = x + 2 * i * at->piece, *odd = even + at->piece, Y[2];
        Bits gates;
        float *lane[VL];
        coefficients(at, even, TILE, false);
        coefficients(at, odd, TILE, false);
        pool_rows(even, odd, bias, Y, &gates, &sizes);
        UNROLL for (int k = 0; k < VL; k++) lane[k] = to->Y[k] + (size_t)i * to->width;
        store_pairs(Y, lane);
        ints_to(gates, to->gates, (size_t)i * 2 * to->width);
    }
    return sizes;
}

INLINE void pooled_gradient_at(const Points *at, const PooledTiles *from, float *points,
                               size_t point) {
    Vec x[MOST_POINTS];
    for (int i = 0; i < TILE / 2; i++) {
        Vec dY[2];
        const float *lane[VL];
        UNROLL for (int k = 0; k < VL; k++) lane[k] = from->Y[k] + (size_t)i * from->width;
        load_pairs(lane, dY);
        Bits gates = ints_of(from->gates, (size_t)i * 2 * from->width);
        UNROLL for (int row = 0; row < 2; row++) { // << makes a gate the sign, >> all bits
            Vec *to = x + (2 * i + row) * at->piece;
            UNROLL for (int j = 0; j < TILE; j++) to[j] =
                (Vec)((Bits)(dY[j / 2] * 0.25f) & ((gates << (31 - 8 * j - row)) >> 31));
            values(at, to, TILE, false);
        }
    }
    columns_to_points(at, x, TILE, column_of_values, points, point);
}

// ---- for each size of a piece -------------------------------------------------------------------

void input_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                     size_t point) {
    WITH_POINTS(piece, input_at, lane, width, points, point);
}
void output_gradient_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                               size_t point) {
    WITH_POINTS(piece, output_gradient_at, lane, width, points, point);
}
TileSizes output_from_points(int piece, const float *points, size_t point, float bias,
                             float *const lane[VL], size_t width) {
    return WITH_POINTS(piece, output_at, points, point, bias, lane, width);
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
TileSizes pooled_from_points(int piece, const float *points, size_t point, float bias,
                             const PooledTiles *to) {
    return WITH_POINTS(piece, pooled_at, points, point, bias, to);
}
void pooled_gradient_to_points(int piece, const PooledTiles *from, float *points, size_t point) {
    WITH_POINTS(piece, pooled_gradient_at, from, points, point);
}
