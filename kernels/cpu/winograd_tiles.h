// winograd_tiles.h: tiles of pixels, and kernels, to the points of Winograd's method and back. For
// winograd.c, which says what they are for.
#ifndef KERNELS_CPU_WINOGRAD_TILES_H
#define KERNELS_CPU_WINOGRAD_TILES_H

#include <stddef.h>

enum { TILE = 4 };   // output pixels of a tile's side
enum { LANES = 16 }; // tiles, or kernels, that are transformed at once

// At each point there is a matrix. One row of all of them: number i at point p is
// first[p * point + i]. It has room for a multiple of LANES numbers; `first` is aligned to LANES
// floats, and `point` is a multiple of LANES.
typedef struct Row {
    float *first;
    size_t point;
} Row;

// The tiles of one channel: its pixels, where among them each tile starts (also those up to a
// multiple of LANES; behind the last pixel there is room for a few more), and their row.
typedef struct Tiles {
    float *pixels;
    int width; // from pixel to pixel in a column
    const int *start;
    size_t n; // tiles
    Row row;
} Tiles;

// `piece` is the side of what a tile sees of the input: TILE - 1 + the side of the kernel, 6 or 8.
void input_to_points(int piece, const Tiles *tiles);
void output_gradient_to_points(int piece, const Tiles *tiles); // of 4x4 pixels each
// These change what is at the points.
void output_from_points(int piece, const Tiles *tiles);
void input_gradient_from_points(int piece, const Tiles *tiles); // adds: pieces overlap

// n kernels of 3x3 or 5x5, one behind the other.
void kernels_to_points(int piece, const float *kernels, int n, Row row);
void kernels_from_points(int piece, Row row, int n, float *kernels); // changes what is there

#endif
