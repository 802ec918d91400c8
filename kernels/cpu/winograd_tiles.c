// winograd_tiles.c: see winograd_tiles.h.
//
// The transforms need the same pixel of LANES tiles side by side, in one vector; but in an image it
// is the pixels of one tile that are side by side. So tiles are read four pixels at a time and
// transposed, and first lie at the points as they are: pixel (i, j) of a piece where its point
// (i, j) will be. Then the transforms run there in place. The way back is the reverse.
//
// The defect that it mends: to move one number at a time took longer than to transform them. And to
// collect a vector from parts and use it at once makes the core wait until its parts have been
// written to the cache; that is why all are transposed first, and then all are transformed.
#include "winograd_tiles.h"
#include "winograd_transforms.h"

// ---- transposing -------------------------------------------------------------------------------

typedef float Four __attribute__((vector_size(sizeof(float) * 4), aligned(4), may_alias));

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int Indices __attribute__((vector_size(sizeof(int) * 4)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Indices){__VA_ARGS__})
#endif

// What were the rows of a matrix become its columns.
INLINE void transpose(Four r[4]) {
    Four a = SHUFFLE(r[0], r[1], 0, 4, 1, 5), b = SHUFFLE(r[0], r[1], 2, 6, 3, 7);
    Four c = SHUFFLE(r[2], r[3], 0, 4, 1, 5), d = SHUFFLE(r[2], r[3], 2, 6, 3, 7);
    r[0] = SHUFFLE(a, c, 0, 1, 4, 5), r[1] = SHUFFLE(a, c, 2, 3, 6, 7);
    r[2] = SHUFFLE(b, d, 0, 1, 4, 5), r[3] = SHUFFLE(b, d, 2, 3, 6, 7);
}

INLINE Four *four(float *p) { return (Four *)p; }
INLINE Four *four_at(Row row, int point, size_t i) {
    return four(row.first + (size_t)point * row.point + i);
}

// ---- tiles of n x n pixels ----------------------------------------------------------------------

INLINE void gather(const Points *at, const Tiles *t, int n) {
    for (size_t tile = 0; tile < t->n; tile += 4)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j += 4) {
                Four r[4];
                for (int k = 0; k < 4; k++)
                    r[k] = *four(t->pixels + t->start[tile + k] + i * t->width + j);
                transpose(r);
                for (int k = 0; k < 4 && j + k < n; k++)
                    *four_at(t->row, i * at->piece + j + k, tile) = r[k];
            }
}

// Puts the pixels where they belong, or adds them to what is there.
INLINE void scatter(const Points *at, const Tiles *t, int n, bool add) {
    for (size_t tile = 0; tile < t->n; tile += 4)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j += 4) {
                Four r[4] = {{0}};
                for (int k = 0; k < 4 && j + k < n; k++)
                    r[k] = *four_at(t->row, i * at->piece + j + k, tile);
                transpose(r);
                for (size_t k = 0; k < 4 && tile + k < t->n; k++) {
                    Four *to = four(t->pixels + t->start[tile + k] + i * t->width + j);
                    if (add) r[k] += *to;
                    *to = r[k];
                }
            }
}

// ---- kernels: their numbers 0, 1, 2, ... are at points 0, 1, 2, ... -----------------------------

INLINE void gather_kernels(const float *kernels, int size, int n, Row row) {
    for (int first = 0; first < n; first += 4) {
        const float *g[4]; // of the last kernel there may be too many: nobody reads the results
        for (int k = 0; k < 4; k++) g[k] = kernels + (first + k < n ? first + k : n - 1) * size;
        for (int i = 0; i + 4 <= size; i += 4) {
            Four r[4];
            for (int k = 0; k < 4; k++) r[k] = *(const Four *)(g[k] + i);
            transpose(r);
            for (int k = 0; k < 4; k++) *four_at(row, i + k, (size_t)first) = r[k];
        }
        *four_at(row, size - 1, (size_t)first) =
            (Four){g[0][size - 1], g[1][size - 1], g[2][size - 1], g[3][size - 1]};
    }
}

INLINE void scatter_kernels(Row row, int size, int n, float *kernels) {
    for (int first = 0; first < n; first += 4) {
        int count = n - first < 4 ? n - first : 4;
        float *g = kernels + first * size;
        for (int i = 0; i + 4 <= size; i += 4) {
            Four r[4];
            for (int k = 0; k < 4; k++) r[k] = *four_at(row, i + k, (size_t)first);
            transpose(r);
            for (int k = 0; k < count; k++) *four(g + k * size + i) = r[k];
        }
        for (int k = 0; k < count; k++)
            g[k * size + size - 1] = (*four_at(row, size - 1, (size_t)first))[k];
    }
}

// ---- the transforms, at the points --------------------------------------------------------------

// x[i * piece + j] for i, j < n is what lies at those points, or, `packed`, at points 0, 1, 2, ...
INLINE void load(const Points *at, Row row, size_t first, int n, bool packed, Lanes *x) {
    for (int i = 0; i < n * n; i++) {
        int p = i / n * at->piece + i % n;
        x[p] = *(const Lanes *)(row.first + (size_t)(packed ? i : p) * row.point + first);
    }
}

INLINE void store(const Points *at, const Lanes *x, int n, bool packed, Row row, size_t first) {
    for (int i = 0; i < n * n; i++) {
        int p = i / n * at->piece + i % n;
        *(Lanes *)(row.first + (size_t)(packed ? i : p) * row.point + first) = x[p];
    }
}

INLINE void input_at(const Points *at, const Tiles *t) {
    gather(at, t, at->piece);
    for (size_t i = 0; i < t->n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, t->row, i, at->piece, false, x);
        of_input_2d(at, x);
        store(at, x, at->piece, false, t->row, i);
    }
}

INLINE void output_gradient_at(const Points *at, const Tiles *t) {
    gather(at, t, TILE);
    for (size_t i = 0; i < t->n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, t->row, i, TILE, false, x);
        values_2d(at, x, TILE, false);
        store(at, x, at->piece, false, t->row, i);
    }
}

INLINE void output_at(const Points *at, const Tiles *t) {
    for (size_t i = 0; i < t->n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, t->row, i, at->piece, false, x);
        coefficients_2d(at, x, TILE, false);
        store(at, x, TILE, false, t->row, i);
    }
    scatter(at, t, TILE, false);
}

INLINE void input_gradient_at(const Points *at, const Tiles *t) {
    for (size_t i = 0; i < t->n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, t->row, i, at->piece, false, x);
        of_input_gradient_2d(at, x);
        store(at, x, at->piece, false, t->row, i);
    }
    scatter(at, t, at->piece, true);
}

INLINE void kernels_at(const Points *at, const float *kernels, int n, Row row) {
    int k = at->piece + 1 - TILE;
    gather_kernels(kernels, k * k, n, row);
    for (size_t i = 0; i < (size_t)n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, row, i, k, true, x);
        values_2d(at, x, k, true);
        store(at, x, at->piece, false, row, i);
    }
}

INLINE void kernel_gradients_at(const Points *at, Row row, int n, float *kernels) {
    int k = at->piece + 1 - TILE;
    for (size_t i = 0; i < (size_t)n; i += LANES) {
        Lanes x[MOST_POINTS];
        load(at, row, i, at->piece, false, x);
        coefficients_2d(at, x, k, true);
        store(at, x, k, true, row, i);
    }
    scatter_kernels(row, k * k, n, kernels);
}

SIMD_CLONES void input_to_points(int piece, const Tiles *t) {
    WITH_POINTS(at, piece, input_at(at, t));
}
SIMD_CLONES void output_gradient_to_points(int piece, const Tiles *t) {
    WITH_POINTS(at, piece, output_gradient_at(at, t));
}
SIMD_CLONES void output_from_points(int piece, const Tiles *t) {
    WITH_POINTS(at, piece, output_at(at, t));
}
SIMD_CLONES void input_gradient_from_points(int piece, const Tiles *t) {
    WITH_POINTS(at, piece, input_gradient_at(at, t));
}
SIMD_CLONES void kernels_to_points(int piece, const float *kernels, int n, Row row) {
    WITH_POINTS(at, piece, kernels_at(at, kernels, n, row));
}
SIMD_CLONES void kernels_from_points(int piece, Row row, int n, float *kernels) {
    WITH_POINTS(at, piece, kernel_gradients_at(at, row, n, kernels));
}
