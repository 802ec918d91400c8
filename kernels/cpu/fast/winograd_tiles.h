// winograd_tiles.h: tiles of pixels, and kernels, to the points of Winograd's method and back. For
// winograd.c, which says what they are for.
//
// VL tiles, or kernels, are transformed at once: lane[i] is where the pixels of tile i begin (rows
// are `width` floats apart), or the numbers of kernel i. At point p what becomes of them are the VL
// floats from points[p * point] on. Lanes may be the same where they are read; where they are
// written, those that nobody wants must point somewhere too.
#ifndef KERNELS_CPU_WINOGRAD_TILES_H
#define KERNELS_CPU_WINOGRAD_TILES_H

#include "vector.h"

enum { TILE = 4 };            // output pixels of a tile's side
enum { MOST_KERNEL = 5 * 5 }; // numbers of the largest kernel

// `piece` is the side of what a tile sees of the input: TILE - 1 + the side of the kernel, 6 or 8.
void input_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                     size_t point);
void output_gradient_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                               size_t point); // of 4x4 pixels each
// Of the 16 pixels of each tile: the sum of squares before a bias is added, and, with the bias, the
// size of the one next to ReLU's 0. For winograd_exact.h.
typedef struct TileSizes {
    Vec squares, least;
} TileSizes;
TileSizes output_from_points(int piece, const float *points, size_t point, float bias,
                             float *const lane[VL], size_t width);
// Adds, for pieces overlap. Behind the last pixel of a piece of 6 there is room for two more.
void input_gradient_from_points(int piece, const float *points, size_t point, float *const lane[VL],
                                size_t width);

// With ReLU and 2x2 pooling behind the tiles, as relu_pool.h has them: of each tile 2x2 pooled
// pixels, in rows that are `width` floats apart, and 4x2 bytes of gates, in rows of 2 `width`. The
// lanes are where the tiles begin.
typedef struct PooledTiles {
    float *Y[VL];
    unsigned char *gates[VL];
    size_t width;
} PooledTiles;
TileSizes pooled_from_points(int piece, const float *points, size_t point, float bias,
                             const PooledTiles *to);
void pooled_gradient_to_points(int piece, const PooledTiles *from, float *points, size_t point);

void kernels_to_points(int piece, const float *const lane[VL], float *points, size_t point);
void kernels_from_points(int piece, const float *points, size_t point, float *const lane[VL]);

#endif
