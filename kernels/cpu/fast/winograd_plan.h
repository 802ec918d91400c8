// winograd_plan.h: Winograd's method, before anything is computed: which tiles there are, how
// images are cut into chunks, who works on what, and what lies where in the scratch memory. For
// winograd.c and winograd_weights.c.
#ifndef KERNELS_CPU_WINOGRAD_PLAN_H
#define KERNELS_CPU_WINOGRAD_PLAN_H

#include "kernels/cpu/cpu.h"
#include "winograd_tiles.h"

// ---- tiles -------------------------------------------------------------------------------------

// One side of a convolution: its images, and how they lie on the grid of tiles.
typedef struct Side {
    int channels, h, w;          // of the images
    int pad_h, pad_w;            // rows of zeros above an image, columns to its left
    const unsigned char *pooled; // or NULL: the images in memory are pooled ones
    int full_h, full_w;          // what the tiles cover
    // Whether tiles can be read, or written, where the images are: they cover them and no more.
    bool in_place;
    size_t width; // from a row to the next, where tiles are read or written
} Side;

// A chunk of images, at least one, is worked on at a time, so that its transforms stay in the
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
// `pooled` as in kernels.h. How many images are in a chunk is not said yet.
Tiling tiling_of(const struct conv2d_shape *s, const unsigned char *pooled);

// ---- kernels -----------------------------------------------------------------------------------

// Some of the kernels, transformed: those from output channel m on, for input channels from c on,
// as a matrix (M,C) at each point. Its rows are `stride` floats apart, which is C rounded up.
typedef struct Kernels {
    int m, M, c, C;
    size_t stride, point, size;
} Kernels;

Kernels kernels_of(const struct conv2d_shape *s, int m, int M, int c, int C);
Kernels all_kernels(const struct conv2d_shape *s);
// Kernels of that many rows from `first` on; backward to the input, rows are input channels.
Kernels some_kernels(const struct conv2d_shape *s, bool backward, int first, int rows);

// ---- who does what -----------------------------------------------------------------------------
//
// Best is a chunk for each thread: its transforms stay in the core's own cache, and nobody waits.
// But a product needs tiles enough in a chunk, or the kernels are fetched anew for little work; and
// deep layers have few tiles and many channels. They have so many kernels that these, transformed,
// would go out to memory and come back. So each thread transforms a few, multiplies with them while
// they are in its own cache, and goes on to the next few (rows of kernels; or columns, a multiple
// of VL). Where there are so many threads that each would do this for a handful of tiles, all share
// a chunk, and each takes some channels of it: what one writes the others read, which takes up to
// half as long again.

typedef struct Chunk {
    int first, images;
    size_t tiles;
} Chunk;

Chunk chunk_of(const Tiling *t, int first, int end);
int num_chunks(const Tiling *t, int N);

typedef struct Teams {
    int teams, members; // teams with one member each, or one team
    bool own;           // each thread transforms some kernels at a time, for itself
} Teams;

// Cuts N images into chunks as equal as can be, so that the same sums are made, and the bits are
// the same, for any number of threads.
Teams cut_images(Tiling *t, int N, int threads);

// Groups of images as in cpu.h, but larger ones where a group would have little to do between
// writing dU to memory and reading it again.
SumTree tree_of(const struct conv2d_shape *s, const Tiling *t);
// Chunks of a group. The sum over several of them is over all kernels.
Teams cut_group(Tiling *t, const struct conv2d_shape *s, SumTree tree, int threads);

// Channels that are worked on tile by tile: in memory they are neighbours, as images and at the
// points. Copies of many would fill the core's first cache.
enum { MOST_AT_ONCE = 16, COPIES_AT_ONCE = 2 };
int channels_at_once(Side side);

// ---- scratch memory ----------------------------------------------------------------------------

// The scratch memory of a pass, in floats:
//
//     shared | team 0 | team 1 | ... | starts of pieces, of tiles, of pooled tiles
//     of a team:    U | in | out | keep | member 0 | member 1 | ...
//     of a member:  the images of some channels | one more tile | sizes of tiles | some kernels
//
// `keep` says which output pixels of a chunk are not blank, see find_blanks().
typedef struct Scratch {
    float *shared;             // all kernels, or all parts of the gradient
    float *U, *in, *out;       // at their points: kernels, pieces of the input, tiles of the output
    float *members;            // the first one's
    int *in_start, *out_start; // where pieces and tiles start in the images of a channel
    int *pooled_start;         // the same of tiles in place
    unsigned *keep;            // of each image of a chunk: bits to keep, for each of its pixels
    bool *has_blanks;          // of each image of a chunk
    size_t of_U, of_in, of_out, of_team, of_member, full, sizes, planes; // floats
} Scratch;

// How many floats are to be in `shared`, in the U of each team, and in the kernels of each member;
// and how many channels a member transforms at once.
typedef struct Room {
    size_t shared, team, member, channels;
} Room;

Scratch scratch_of(CpuLane *lane, const Tiling *t, Teams teams, Room room);
// The same with `U`, `in` and so on of that team.
Scratch scratch_of_team(const Scratch *first, const Tiling *t, int team);
// What belongs to the thread that asks.
float *planes_of_member(const Scratch *s);
float *sizes_of_member(const Scratch *s);
float *kernels_of_member(const Scratch *s);

// ---- all of it ---------------------------------------------------------------------------------

// What one pass works with; parts are those of the gradient of kernels, one for each group.
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

// Runs work(item) for each chunk or group: each by a thread, or one after the other by all. (With
// one team there is no outer `parallel`: threads inside of one would be made anew for each item.)
void share_items(const Pass *pass, int items, Work *work);

#endif
