// winograd_plan.h: what Winograd's method decides before anything is computed: which tiles there
// are, how images are cut into chunks, which thread works on what, and where things are in scratch
// memory. A pass calls tiling_of(), cut_images() or cut_group(), scratch_of(), then share_items().
// For winograd.c and winograd_weights.c.
#pragma once

#include "kernels/cpu/cpu.h"
#include "winograd_tiles.h"

// ---- tiles -------------------------------------------------------------------------------------

// One side of a convolution: its images, and how they lie on the grid of tiles.
typedef struct Side {
    int channels, h, w;          // of the images
    int pad_h, pad_w;            // rows of zeros above an image, columns to its left
    const unsigned char *pooled; // or NULL: the images in memory are pooled ones
    int full_h, full_w;          // what the tiles cover
    bool in_place; // tiles are read or written in the images themselves: they cover them exactly
    size_t width;  // from a row to the next, where tiles are read or written
} Side;

// Images are processed in chunks of one or more, so that the transforms of a chunk stay in the
// cache.
typedef struct Tiling {
    Side in, out;
    int piece, points, rows, cols; // tiles in an image
    int chunk;                     // images
    size_t stride;                 // tiles of a chunk, rounded up
    size_t in_point, out_point;    // floats from a point to the next: pieces of the input, tiles
} Tiling;

INLINE size_t full_size(Side side) { return (size_t)side.full_h * (size_t)side.full_w; }
int side_of_piece(const struct conv2d_shape *s);
// `pooled` as in kernels.h. The fields about chunks are not set yet; cut_images() or cut_group()
// does.
Tiling tiling_of(const struct conv2d_shape *s, const unsigned char *pooled);

// ---- kernels -----------------------------------------------------------------------------------

// Some of the kernels, transformed: M output channels from m on, C input channels from c on, as a
// matrix (M,C) at each point. Its rows are `stride` floats apart, which is C rounded up.
typedef struct Kernels {
    int m, M, c, C;
    size_t stride, point, size;
} Kernels;

Kernels all_kernels(const struct conv2d_shape *s);
// The kernels of `rows` output channels from `first` on; or, backward to the input, of input
// channels.
Kernels some_kernels(const struct conv2d_shape *s, bool backward, int first, int rows);

// ---- which thread works on what ----------------------------------------------------------------
//
// The best case is a chunk for each thread: its transforms stay in the core's own cache, and no
// thread waits. But a chunk must have enough tiles, or the kernels are fetched anew for little
// work, and deep layers have few tiles and many channels. They also have so many kernels that
// these, once transformed, would be written to memory and read again. So each thread transforms a
// few kernels (some rows of them; or columns, a multiple of VL), multiplies with them while they
// are in its own cache, and goes on to the next few. With many threads, each would do this for only
// a handful of tiles. Then all threads share a chunk, and each takes some of its channels. As they
// read what the others write, this takes up to 1.5 times as long.

typedef struct Chunk {
    int first, images;
    size_t tiles;
} Chunk;

Chunk chunk_of(const Tiling *t, int first, int end);
int num_chunks(const Tiling *t, int N);

typedef struct Teams {
    int teams, members; // teams with one member each, or one team
    bool own;           // whether each thread transforms some kernels at a time, for itself
} Teams;

// Cuts N images into chunks of nearly equal size. Sums, and so bits, are the same for any number of
// threads.
Teams cut_images(Tiling *t, int N, int threads);

// Groups of images as in cpu.h, but larger if a group would do little work between reading dU from
// memory and writing it back.
SumTree tree_of(const struct conv2d_shape *s, const Tiling *t);
// Cuts a group into chunks. If there are several, all kernels are added up from chunk to chunk.
Teams cut_group(Tiling *t, const struct conv2d_shape *s, SumTree tree, int threads);

// The number of channels that are processed together, tile by tile: they are neighbours in memory,
// as images and at the points. If they are copied there are fewer, because copies of many would
// fill the core's first cache.
enum { MOST_AT_ONCE = 16, COPIES_AT_ONCE = 2 };
int channels_at_once(Side side);

// ---- scratch memory ----------------------------------------------------------------------------

// The scratch memory of a pass, in floats:
//
//     shared | team 0 | team 1 | ... | starts of pieces, of tiles, of pooled tiles
//     of a team:    U | in | out | keep | member 0 | member 1 | ...
//     of a member:  the images of some channels | one more tile | sizes of tiles | some kernels
//
// `keep` says which output pixels of a chunk are not blank: find_blanks() in winograd_exact.h.
typedef struct Scratch {
    float *shared;             // all kernels, or all parts of the gradient
    float *U, *in, *out;       // at their points: kernels, pieces of the input, tiles of the output
    float *members;            // memory of the first member
    int *in_start, *out_start; // where pieces and tiles start in the images of a channel
    int *pooled_start;         // the same of tiles in place
    unsigned *keep;            // of each image of a chunk: bits to keep, for each of its pixels
    bool *has_blanks;          // of each image of a chunk
    size_t of_U, of_in, of_out, of_team, of_member, full, sizes, planes; // floats
} Scratch;

// What scratch_of() makes room for, in floats: `shared`, the U of each team, and the kernels of
// each member. And the number of channels that a member transforms at once.
typedef struct Room {
    size_t shared, team, member, channels;
} Room;

Scratch scratch_of(CpuLane *lane, const Tiling *t, Teams teams, Room room);
// The same with `U`, `in` and so on of that team.
Scratch scratch_of_team(const Scratch *first, const Tiling *t, int team);
// The memory of the calling thread.
float *planes_of_member(const Scratch *s);
float *sizes_of_member(const Scratch *s);
float *kernels_of_member(const Scratch *s);

// ---- all of it ---------------------------------------------------------------------------------

// What one pass works with. `parts`, `part` (floats from one to the next) and `tree` are for the
// gradient of kernels, which has a part for each group.
typedef struct Pass {
    const void *args; // of the kernel
    Tiling t;
    Teams teams;
    Scratch scratch;
    float *parts;
    size_t part;
    SumTree tree;
} Pass;

typedef void Work(const Pass *pass, const Scratch *scratch, int item);

// Runs work(item) for each chunk or group: one thread for each item, or one item after the other by
// all threads. (With one team there is no outer `parallel`, because threads inside it would be
// created anew for each item.)
void share_items(const Pass *pass, int items, Work *work);
