// winograd_tiles.h: transforms tiles of pixels, and kernels, to the points of Winograd's method and
// back. Call X_to_points() for what the products read and X_from_points() for what they give;
// winograd.c says what points are.
//
// VL tiles, or kernels, are transformed at once. lane[i] is where the pixels of tile i begin (rows
// are `width` floats apart), or the numbers of kernel i. At point p, their values are the VL floats
// from points[p * point] on. Lanes that are read may be equal. Lanes that are written must all
// point to memory, even those whose result is not needed.
#pragma once

#include "vector.h"

enum { TILE = 4 };            // output pixels of a tile's side
enum { MOST_KERNEL = 5 * 5 }; // numbers of the largest kernel

// `piece` is the side of what a tile sees of the input: TILE - 1 + the side of the kernel, 6 or 8.
void input_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                     size_t point);
void output_gradient_to_points(int piece, const float *const lane[VL], size_t width, float *points,
                               size_t point); // of 4x4 pixels each
// For winograd_exact.h: of the 16 pixels of each tile, the sum of squares before the bias is added,
// and the least size after it is added.
typedef struct TileSizes {
    Vec squares, least;
} TileSizes;
TileSizes output_from_points(int piece, const float *points, size_t point, float bias,
                             float *const lane[VL], size_t width);
// Adds to what is there, because pieces overlap. Two floats after each row of a piece of 6 are read
// and written, too.
void input_gradient_from_points(int piece, const float *points, size_t point, float *const lane[VL],
                                size_t width);

// The same with ReLU and 2x2 pooling, as in relu_pool.c. Each tile has 2x2 pooled pixels, in rows
// that are `width` floats apart, and two rows of 4 bytes of gates (`pooled` in kernels.h), which
// are 2 `width` bytes apart. Lane i of the tiles begins at Y[i] and gates[i].
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
