// winograd.c: convolutions in a fraction of the multiplications. See winograd.h.
#include "winograd.h"
#include "product.h"
#include "relu_pool.h"
#include "winograd_exact.h"
#include "winograd_tiles.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

// Names as in Lavin & Gray: a tile of 4x4 output pixels sees a piece d of the input, of 6x6 pixels
// with a kernel g of 3x3 and of 8x8 pixels with one of 5x5, and
//
//     y = A^T [ (G g G^T) * (B^T d B) ] A           (* is element by element)
//
// takes 36 or 64 multiplications, where the loops take 16 x 9 or 16 x 25. The transforms G, B and A
// are additions, and products with constants; each is done once for many products. The sum over
// input channels may be taken before A: so each of the 36 or 64 points is a matrix product of its
// own,
//
//     (output channels, input channels) x (input channels, tiles)
//
// and product.c does those, with U = G g G^T. Backward to the input is the same in reverse order,
// with all matrices transposed. For the gradient of g each point is a product (output channels,
// tiles) x (tiles, input channels), and then comes G^T.
//
// What is transformed is written where the product wants to read it. There the numbers of VL
// neighbouring columns lie side by side, and below them those of the next row: VL tiles of a
// channel, below them those of the next channel; or, for the gradient of g, VL channels of a tile,
// below them those of the next tile.

static int piece_of(const struct conv2d_shape *s) { return TILE - 1 + s->kernel_h; }

// ---- where things are --------------------------------------------------------------------------

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
} Tiling;

static size_t full_size(Side side) { return (size_t)side.full_h * (size_t)side.full_w; }

// Each point is a matrix of that many floats. An odd number of cache lines from one to the next: at
// multiples of 4 KiB they would push each other out of the cache.
static size_t point_size(size_t floats) {
    enum { LINE = 16 };
    return ((floats + LINE - 1) / LINE | 1) * LINE;
}

static Tiling tiling_of(const struct conv2d_shape *s, const unsigned char *pooled) {
    Tiling t = {
        .in = {s->C, s->H, s->W, s->pad_h, s->pad_w, NULL, 0, 0, false, 0},
        .out = {s->M, s->out_h, s->out_w, 0, 0, pooled, 0, 0, false, 0},
        .piece = piece_of(s),
        .rows = (s->out_h + TILE - 1) / TILE,
        .cols = (s->out_w + TILE - 1) / TILE,
    };
    t.points = t.piece * t.piece;
    t.out.full_h = t.rows * TILE, t.out.full_w = t.cols * TILE;
    t.in.full_h = t.out.full_h + t.piece - TILE, t.in.full_w = t.out.full_w + t.piece - TILE;
    t.in.in_place = t.piece == 8 && s->pad_h == 0 && s->pad_w == 0 && t.in.full_h <= s->H &&
                    t.in.full_w <= s->W;
    t.in.width = (size_t)(t.in.in_place ? s->W : t.in.full_w);
    t.out.in_place = pooled && t.out.full_h == s->out_h && t.out.full_w == s->out_w;
    t.out.width = (size_t)t.out.full_w;
    return t;
}

static void set_chunk(Tiling *t, int images) {
    t->chunk = images;
    t->stride = round_to_vectors((size_t)t->rows * (size_t)t->cols * (size_t)images);
}

// ---- kernels -----------------------------------------------------------------------------------

// Some of the kernels, transformed: those from output channel m on, for input channels from c on,
// as a matrix (M,C) at each point. Its rows are `stride` floats apart, which is C rounded up.
typedef struct Kernels {
    int m, M, c, C;
    size_t stride, point, size;
} Kernels;

static Kernels kernels_of(const struct conv2d_shape *s, int m, int M, int c, int C) {
    Kernels k = {m, M, c, C, round_to_vectors((size_t)C), 0, 0};
    k.point = point_size((size_t)M * k.stride);
    k.size = k.point * (size_t)(piece_of(s) * piece_of(s));
    return k;
}

static Kernels all_kernels(const struct conv2d_shape *s) { return kernels_of(s, 0, s->M, 0, s->C); }

// U: kernel m of W (M,C,k,k) transformed. VL input channels at a time; what is too many is the last
// one again.
static void transform_kernel(const struct conv2d_shape *s, const float *W, Kernels k, int m,
                             float *U) {
    size_t size = (size_t)(s->kernel_h * s->kernel_w);
    const float *first = W + ((size_t)m * s->C + k.c) * size, *lane[VL];
    U += (size_t)(m - k.m) * k.stride;
    for (int c = 0; c < k.C; c += VL) {
        for (int i = 0; i < VL; i++) lane[i] = first + (size_t)smaller(c + i, k.C - 1) * size;
        kernels_to_points(piece_of(s), lane, U + c, k.point);
    }
}

// The reverse: the gradient of kernel m, for these input channels, from that of U.
static void kernel_gradient(const struct conv2d_shape *s, const float *dU, Kernels k, int m,
                            float *dW) {
    size_t size = (size_t)(s->kernel_h * s->kernel_w);
    float *first = dW + ((size_t)m * s->C + k.c) * size, *lane[VL], nobody[MOST_KERNEL];
    dU += (size_t)(m - k.m) * k.stride;
    for (int c = 0; c < k.C; c += VL) {
        for (int i = 0; i < VL; i++)
            lane[i] = c + i < k.C ? first + (size_t)(c + i) * size : nobody;
        kernels_from_points(piece_of(s), dU + c, k.point, lane);
    }
}

// ---- images ------------------------------------------------------------------------------------

typedef struct Chunk {
    int first, images;
    size_t tiles;
} Chunk;

static Chunk chunk_of(const Tiling *t, int first, int end) {
    int images = smaller(t->chunk, end - first);
    return (Chunk){first, images, (size_t)images * (size_t)t->rows * (size_t)t->cols};
}

// Where each tile of a chunk starts among the images of a channel. What rounding up to vectors adds
// is the first tile once more: nobody reads the results.
static void find_tiles(const Tiling *t, Side side, int *at) {
    size_t n = 0;
    for (int image = 0; image < t->chunk; image++)
        for (int row = 0; row < t->rows; row++)
            for (int col = 0; col < t->cols; col++)
                at[n++] = (image * side.full_h + row * TILE) * side.full_w + col * TILE;
    while (n < t->stride) at[n++] = 0;
}

// The same among the images as they are: after the first of this channel come its other channels. A
// tile of pooled images is half as high and wide.
static void find_tiles_in_place(const Tiling *t, Side side, int *at) {
    int half = side.pooled ? 2 : 1, width = side.w / half, step = TILE / half;
    int size = side.channels * width * (side.h / half);
    size_t n = 0;
    for (int image = 0; image < t->chunk; image++)
        for (int row = 0; row < t->rows; row++)
            for (int col = 0; col < t->cols; col++)
                at[n++] = image * size + row * step * width + col * step;
    while (n < t->stride) at[n++] = 0;
}

// Copies channel c of a chunk's images to where their tiles look for them. There are zeros around
// them already.
static void copy_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *images,
                         int c, float *to) {
    int rows = smaller(side.h, side.full_h - side.pad_h);
    int cols = smaller(side.w, side.full_w - side.pad_w);
    size_t size = (size_t)side.h * (size_t)side.w, width = (size_t)side.full_w;
    to += (size_t)side.pad_h * width + (size_t)side.pad_w;
    for (int image = 0; image < chunk.images; image++, to += full_size(side)) {
        size_t plane = (size_t)(chunk.first + image) * side.channels + c;
        if (side.pooled) { // few bytes here and there: the next channel's, next to them, are sent
                           // for
            __builtin_prefetch(images + (plane + 1) * size / 4);
            __builtin_prefetch(side.pooled + (plane + 1) * size / 2);
            unpool(s, images + plane * size / 4, side.pooled + plane * size / 2, to, width);
            continue;
        }
        const float *from = images + plane * size;
        for (int h = 0; h < rows; h++)
            copy_floats(to + (size_t)h * width, from + (size_t)h * side.w, cols);
    }
}

// ---- results -----------------------------------------------------------------------------------

typedef struct Output {
    float *images;
    const float *bias; // or NULL
    float beta;
    unsigned char *pooled; // or NULL: goes through ReLU and pooling
} Output;

// A row of `count` pixels = (beta != 0: itself) + from + bias. What no tile covers is 0.
static void store_row(float *to, const float *from, int count, int covered, float bias,
                      float beta) {
    for (int w = 0; w < covered; w++) to[w] = beta != 0 ? to[w] + (from[w] + bias) : from[w] + bias;
    for (int w = covered; w < count; w++) to[w] = beta != 0 ? to[w] + bias : bias;
}

// From `full`, what the tiles have given of channel c, to its images.
static void store_channel(const struct conv2d_shape *s, Side side, Chunk chunk, const float *full,
                          int c, Output out) {
    size_t size = (size_t)side.h * (size_t)side.w, width = (size_t)side.full_w;
    int rows = smaller(side.h, side.full_h - side.pad_h);
    int cols = smaller(side.w, side.full_w - side.pad_w);
    float bias = out.bias ? out.bias[c] : 0;
    for (int image = 0; image < chunk.images; image++, full += full_size(side)) {
        size_t plane = (size_t)(chunk.first + image) * side.channels + c;
        if (out.pooled) {
            relu_and_pool(s, full, width, bias, out.images + plane * size / 4,
                          out.pooled + plane * size / 2);
            continue;
        }
        for (int h = 0; h < side.h; h++)
            store_row(out.images + plane * size + (size_t)h * side.w,
                      full + (size_t)(h + side.pad_h) * width + side.pad_w, side.w,
                      h < rows ? cols : 0, bias, out.beta);
    }
}

// ---- who does what -----------------------------------------------------------------------------
//
// Best is a chunk for each thread: its transforms stay in the core's own cache, and nobody waits.
// But a product needs tiles enough in a chunk, or the kernels are fetched anew for little work; and
// deep layers have few tiles and many channels. Then all threads share a chunk, and each takes some
// channels of it. Such layers have so many kernels that these, transformed, would go out to memory
// and come back. So each thread transforms a few, multiplies with them while they are in its own
// cache, and goes on to the next few (rows of kernels; or columns, a multiple of VL).
//
// The sizes are those that were fastest on one machine (1 MiB of cache for each core, 32 MiB for
// all): of the transforms of a chunk that is one thread's or all threads', of the sum over a group
// of images, and from where on the gradients of kernels are too many for that.
enum { CORE_BYTES = 2 << 20, SHARED_BYTES = 10 << 20, GROUP_BYTES = 20 << 20 };
enum { KERNEL_BYTES = 10 << 20 };
enum { LEAST_TILES = 48, ROWS_AT_ONCE = 16, COLUMNS_AT_ONCE = 32 };

// Images whose transforms fit into that many bytes.
static int images_in(const Tiling *t, size_t bytes) {
    size_t channels = (size_t)(t->in.channels + t->out.channels);
    size_t image = (size_t)t->rows * (size_t)t->cols * (size_t)t->points * channels * sizeof(float);
    return image < bytes ? (int)(bytes / image) : 1;
}

// A chunk that fits a core, or 0 if that has too few tiles.
static int images_of_core(const Tiling *t) {
    int images = images_in(t, CORE_BYTES);
    return (long)images * t->rows * t->cols >= LEAST_TILES ? images : 0;
}

static int num_chunks(const Tiling *t, int N) { return (N + t->chunk - 1) / t->chunk; }

// Floats of a point: pieces of the input, tiles of the output. As there may be VL channels side by
// side as well as VL tiles, both are rounded up.
static size_t in_point(const Tiling *t) {
    return point_size(round_to_vectors((size_t)t->in.channels) * t->stride);
}
static size_t out_point(const Tiling *t) {
    return point_size(round_to_vectors((size_t)t->out.channels) * t->stride);
}

typedef struct Teams {
    int teams, members; // teams with one member each, or one team
    bool own;           // each thread transforms some kernels at a time, for itself
} Teams;

// Cuts N images into chunks as equal as can be. All this depends on the shape alone, so that the
// same sums are made, and the bits are the same, for any number of threads.
static Teams cut_images(Tiling *t, int N, int threads) {
    enum { SHARES = 16 }; // so that 2, 4, 8 and 16 threads have equally much to do
    int images = images_of_core(t), turns = 0, step = images ? SHARES : 1;
    bool small = images > 0;
    if (!small) images = images_in(t, SHARED_BYTES);
    do turns += step;
    while (images * turns < N);
    set_chunk(t, (N + turns - 1) / turns);
    return small ? (Teams){smaller(threads, num_chunks(t, N)), 1, .own = false}
                 : (Teams){1, threads, .own = true};
}

// Channels that are worked on tile by tile: in memory they are neighbours, as images and at the
// points. Copies of many would fill the core's first cache.
enum { MOST_AT_ONCE = 16, COPIES_AT_ONCE = 2 };
static int channels_at_once(Side side) { return side.in_place ? MOST_AT_ONCE : COPIES_AT_ONCE; }

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

static Scratch scratch_of(CpuLane *lane, const Tiling *t, Teams teams, Room room) {
    Scratch s = {.of_U = room.team};
    size_t pieces = (size_t)t->points, keep = (size_t)t->chunk * full_size(t->out);
    size_t image = (size_t)t->in.h * (size_t)t->in.w;
    size_t tile = (size_t)t->piece * t->in.width + 4; // they are read by fours
    s.full = round_to_vectors((size_t)t->chunk * full_size(t->in) + 4);
    if (s.full < image) s.full = round_to_vectors(image);
    s.of_in = pieces * in_point(t);
    s.of_out = pieces * out_point(t);
    s.sizes = s.full * room.channels + round_to_vectors(tile);
    s.planes = s.sizes + 2 * t->stride * MOST_AT_ONCE;
    s.of_member = s.planes + room.member;
    s.of_team = s.of_U + s.of_in + s.of_out + round_to_vectors(keep + (size_t)t->chunk) +
                s.of_member * (size_t)teams.members;
    size_t floats = room.shared + s.of_team * (size_t)teams.teams + 3 * t->stride;
    s.shared = cpu_scratch(lane, sizeof(float) * floats);
    s.U = s.shared + room.shared;
    s.in_start = (int *)(s.U + s.of_team * (size_t)teams.teams);
    s.out_start = s.in_start + t->stride;
    s.pooled_start = s.out_start + t->stride;
    (t->in.in_place ? find_tiles_in_place : find_tiles)(t, t->in, s.in_start);
    find_tiles(t, t->out, s.out_start);
    if (t->out.in_place) find_tiles_in_place(t, t->out, s.pooled_start);
    return s;
}

static Scratch scratch_of_team(const Scratch *first, const Tiling *t, int team) {
    Scratch s = *first;
    s.U += (size_t)team * s.of_team;
    s.in = s.U + s.of_U, s.out = s.in + s.of_in;
    s.keep = (unsigned *)(s.out + s.of_out);
    s.has_blanks = (bool *)(s.keep + (size_t)t->chunk * full_size(t->out));
    s.members = s.out + s.of_out + round_to_vectors((size_t)t->chunk * (full_size(t->out) + 1));
    return s;
}

static float *planes_of_member(const Scratch *s) {
    return s->members + s->of_member * (size_t)omp_get_thread_num();
}

static float *sizes_of_member(const Scratch *s) { return planes_of_member(s) + s->sizes; }

static float *kernels_of_member(const Scratch *s) { return planes_of_member(s) + s->planes; }

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
static void share_items(const Pass *pass, int items, Work *work) {
    if (pass->teams.teams == 1) {
        Scratch scratch = scratch_of_team(&pass->scratch, &pass->t, 0);
        for (int item = 0; item < items; item++) {
#pragma omp parallel num_threads(pass->teams.members)
            work(pass, &scratch, item);
        }
        return;
    }
#pragma omp parallel for num_threads(pass->teams.teams) schedule(dynamic)
    for (int item = 0; item < items; item++) {
        Scratch scratch = scratch_of_team(&pass->scratch, &pass->t, omp_get_thread_num());
#pragma omp parallel num_threads(1) // the only member of its team: each `omp for` is its own
        work(pass, &scratch, item);
    }
}

// ---- the three passes --------------------------------------------------------------------------
//
// What works on a chunk is called by all members of a team, who share each `omp for` in it and wait
// for each other at its end.

bool winograd_suits(const struct conv2d_shape *s) {
    int k = s->kernel_h, least = k == 5 ? 4 : 16; // channels from which on it is worth it
    int most = k == 5 ? 128 : INT_MAX;            // the error grows with them: 1e-4 for 5x5 and 300
    return k == s->kernel_w && (k == 3 || k == 5) && s->stride_h == 1 && s->stride_w == 1 &&
           s->pad_h < k && s->pad_w < k && s->C >= least && s->M >= least && s->C <= most &&
           s->M <= most && s->N > 0 && s->out_h > 0 && s->out_w > 0;
}

// Channel c of a chunk's images, where tiles can be read: there, or copied to `full`.
static const float *planes_to_read(const struct conv2d_shape *s, Side side, Chunk chunk,
                                   const float *images, int c, float *full) {
    size_t size = (size_t)side.h * (size_t)side.w;
    if (side.in_place) return images + ((size_t)chunk.first * side.channels + c) * size;
    copy_channel(s, side, chunk, images, c, full);
    return full;
}

// Zeros for the copies: nothing around the images, or behind the last one, is written later.
static float *zeros_for_copies(const Scratch *scratch, Side side, int copies) {
    float *full = planes_of_member(scratch);
    if (!side.in_place) memset(full, 0, sizeof(float) * scratch->full * (size_t)copies);
    return full;
}

static void transform_inputs(const struct conv2d_shape *s, const Tiling *t, const Scratch *scratch,
                             Chunk chunk, const float *X) {
    const float *planes[MOST_AT_ONCE], *lane[VL];
    int some = channels_at_once(t->in);
    float *full = zeros_for_copies(scratch, t->in, some);
#pragma omp for schedule(static)
    for (int first = 0; first < s->C; first += some) {
        int end = smaller(first + some, s->C);
        for (int c = first; c < end; c++)
            planes[c - first] =
                planes_to_read(s, t->in, chunk, X, c, full + (size_t)(c - first) * scratch->full);
        for (size_t tile = 0; tile < t->stride; tile += VL)
            for (int c = first; c < end; c++) {
                float *at = scratch->in + tile * (size_t)s->C + (size_t)c * VL;
                for (size_t i = 0; i < VL; i++)
                    lane[i] = planes[c - first] +
                              (tile + i < chunk.tiles ? scratch->in_start[tile + i] : 0);
                input_to_points(t->piece, lane, t->in.width, at, in_point(t));
            }
    }
}

// Where a tile of channel m of pooled images is, in place.
static size_t pooled_at(const Side *out, const Scratch *scratch, Chunk chunk, int m, size_t tile) {
    size_t size = (size_t)(out->h / 2) * (size_t)(out->w / 2);
    return ((size_t)chunk.first * (size_t)out->channels + (size_t)m) * size +
           (size_t)scratch->pooled_start[tile];
}

// VL tiles of pooled images: dY and gates are read from there.
static void set_lane(PooledTiles *tiles, int i, const float *Y, const unsigned char *gates,
                     size_t at) {
    tiles->Y[i] = (float *)Y + at, tiles->gates[i] = (unsigned char *)gates + 2 * at;
}

static void transform_output_gradients(const struct conv2d_shape *s, const Tiling *t,
                                       const Scratch *scratch, Chunk chunk, const float *dY) {
    const float *lane[VL];
    PooledTiles pooled = {.width = (size_t)s->out_w / 2};
    int some = channels_at_once(t->out);
    float *full = zeros_for_copies(scratch, t->out, some);
#pragma omp for schedule(static)
    for (int first = 0; first < s->M; first += some) {
        int end = smaller(first + some, s->M);
        for (int m = first; m < end && !t->out.in_place; m++)
            copy_channel(s, t->out, chunk, dY, m, full + (size_t)(m - first) * scratch->full);
        for (size_t tile = 0; tile < t->stride; tile += VL)
            for (int m = first; m < end; m++) {
                float *at = scratch->out + tile * (size_t)s->M + (size_t)m * VL;
                for (size_t i = 0; i < VL; i++) {
                    size_t own = tile + i < chunk.tiles ? tile + i : 0;
                    if (t->out.in_place)
                        set_lane(&pooled, (int)i, dY, t->out.pooled,
                                 pooled_at(&t->out, scratch, chunk, m, own));
                    else
                        lane[i] =
                            full + (size_t)(m - first) * scratch->full + scratch->out_start[own];
                }
                if (t->out.in_place)
                    pooled_gradient_to_points(t->piece, &pooled, at, out_point(t));
                else
                    output_gradient_to_points(t->piece, lane, t->out.width, at, out_point(t));
            }
    }
}

// At each point out = U in; or, backward, in = U^T out. For the rows that these kernels give.
static void multiply(const Tiling *t, const Scratch *scratch, const float *U, Kernels k,
                     bool backward) {
    size_t in = (size_t)t->in.channels * VL, out = (size_t)t->out.channels * VL;
    Product p = {.a_row = backward ? 1 : k.stride, .a_col = backward ? k.stride : 1};
    p.b_block = backward ? out : in, p.c_block = backward ? in : out, p.c_row = VL;
    p.rows = backward ? k.C : k.M, p.depth = backward ? k.M : k.C,
    p.vectors = (int)(t->stride / VL);
    for (int point = 0; point < t->points; point++) {
        float *at_in = scratch->in + (size_t)point * in_point(t) + (size_t)k.c * VL;
        float *at_out = scratch->out + (size_t)point * out_point(t) + (size_t)k.m * VL;
        p.A = U + (size_t)point * k.point;
        p.B = backward ? at_out : at_in, p.C = backward ? at_in : at_out;
        product(&p);
    }
}

// Kernels of that many rows from `first` on; backward to the input, rows are input channels.
static Kernels some_kernels(const struct conv2d_shape *s, bool backward, int first, int rows) {
    return backward ? kernels_of(s, 0, s->M, first, smaller(rows, s->C - first))
                    : kernels_of(s, first, smaller(rows, s->M - first), 0, s->C);
}

static void multiply_all(const struct conv2d_shape *s, const Pass *pass, const Scratch *scratch,
                         const float *W, bool backward) {
    if (!pass->teams.own) { // the team is one thread
        multiply(&pass->t, scratch, scratch->shared, all_kernels(s), backward);
        return;
    }
    float *U = kernels_of_member(scratch);
#pragma omp for schedule(static)
    for (int first = 0; first < (backward ? s->C : s->M); first += ROWS_AT_ONCE) {
        Kernels k = some_kernels(s, backward, first, ROWS_AT_ONCE);
        for (int m = k.m; m < k.m + k.M; m++) transform_kernel(s, W, k, m, U);
        multiply(&pass->t, scratch, U, k, backward);
    }
}

// From the points to the pixels of channel m: those of some images' tiles. Lanes without such a
// tile write into `nobody`.
static void tiles_from_points(const Tiling *t, const Scratch *scratch, size_t first, size_t end,
                              int m, float *full, float *nobody) {
    float *lane[VL];
    for (size_t tile = first / VL * VL; tile < end; tile += VL) {
        const float *at =
            scratch->out + (tile / VL * (size_t)t->out.channels * VL) + (size_t)m * VL;
        for (size_t i = tile; i < tile + VL; i++)
            lane[i - tile] = first <= i && i < end ? full + scratch->out_start[i] : nobody;
        output_from_points(t->piece, at, out_point(t), lane, t->out.width);
    }
}

// Channel m of `images` images of a chunk, from the one of that number on: from the points to Y.
static void images_from_points(const Pass *pass, const Scratch *scratch, Chunk chunk, int image,
                               int images, int m) {
    const struct conv2d_forward_args *a = pass->args;
    const Tiling *t = &pass->t;
    size_t size = full_size(t->out), tiles = (size_t)t->rows * (size_t)t->cols;
    float *planes = planes_of_member(scratch), *full = planes + (size_t)image * size;
    const unsigned *keep = scratch->keep + (size_t)image * size;
    tiles_from_points(t, scratch, (size_t)image * tiles, (size_t)(image + images) * tiles, m,
                      planes, planes + scratch->full);
    for (int i = 0; i < images; i++, full += size, keep += size) { // see winograd_exact.h
        if (scratch->has_blanks[image + i]) erase_blanks(&a->s, t->out.width, keep, full);
        if (a->b) mend_small_pixels(a, chunk.first + image + i, m, t->out.width, size, full);
    }
    Chunk some = {chunk.first + image, images, (size_t)images * tiles};
    store_channel(&a->s, t->out, some, planes + (size_t)image * size, m,
                  (Output){a->Y, a->b, 0, a->pooled});
}

// The same of all images, through ReLU and pooling without another look at memory. Only those go
// the long way in which something must be exact.
static void pooled_channels_from_points(const Pass *pass, const Scratch *scratch, Chunk chunk,
                                        int first, int end) {
    const struct conv2d_forward_args *a = pass->args;
    const Tiling *t = &pass->t;
    int tiles = t->rows * t->cols;
    float *nobody = planes_of_member(scratch) + scratch->full, *squares = sizes_of_member(scratch);
    float *least = squares + t->stride * MOST_AT_ONCE;
    PooledTiles to = {.width = (size_t)a->s.out_w / 2};
    for (size_t tile = 0; tile < chunk.tiles; tile += VL)
        for (int m = first; m < end; m++) {
            const float *at = scratch->out + tile * (size_t)a->s.M + (size_t)m * VL;
            for (size_t i = 0; i < VL; i++)
                if (tile + i < chunk.tiles)
                    set_lane(&to, (int)i, a->Y, a->pooled,
                             pooled_at(&t->out, scratch, chunk, m, tile + i));
                else
                    set_lane(&to, (int)i, nobody, (unsigned char *)nobody, 0);
            TileSizes sizes =
                pooled_from_points(t->piece, at, out_point(t), a->b ? a->b[m] : 0, &to);
            vec_to(squares + t->stride * (size_t)(m - first) + tile, sizes.squares);
            vec_to(least + t->stride * (size_t)(m - first) + tile, sizes.least);
        }
    for (int m = first; m < end; m++)
        for (int image = 0; image < chunk.images; image++) {
            size_t at = t->stride * (size_t)(m - first) + (size_t)(image * tiles);
            if (scratch->has_blanks[image] ||
                (a->b && are_near_gate(squares + at, least + at, tiles)))
                images_from_points(pass, scratch, chunk, image, 1, m);
        }
}

static void forward(const Pass *pass, const Scratch *scratch, int item) {
    const struct conv2d_forward_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    Chunk chunk = chunk_of(t, item * t->chunk, s->N);
#pragma omp for schedule(static)
    for (int image = 0; image < chunk.images; image++)
        scratch->has_blanks[image] =
            find_blanks(s, a->X + (size_t)(chunk.first + image) * (size_t)(s->C * s->H * s->W),
                        (size_t)t->out.full_w, scratch->keep + (size_t)image * full_size(t->out),
                        (unsigned *)planes_of_member(scratch));
    transform_inputs(s, t, scratch, chunk, a->X);
    multiply_all(s, pass, scratch, a->W, false);
    int some = channels_at_once(t->out);
#pragma omp for schedule(static)
    for (int first = 0; first < s->M; first += some) {
        int end = smaller(first + some, s->M);
        if (t->out.in_place)
            pooled_channels_from_points(pass, scratch, chunk, first, end);
        else
            for (int m = first; m < end; m++)
                images_from_points(pass, scratch, chunk, 0, chunk.images, m);
    }
}

// Where the tiles of channel c of a chunk's images are to be added: to dX, or to zeros.
static float *planes_to_add_to(Side in, const Scratch *scratch, Chunk chunk,
                               const struct conv2d_backward_input_args *a, int c, float *full) {
    size_t size = (size_t)in.h * (size_t)in.w, next = size * (size_t)in.channels;
    float *dX = a->dX + (size_t)chunk.first * next + (size_t)c * size;
    if (!in.in_place) memset(full, 0, sizeof(float) * scratch->full);
    for (int image = 0; image < chunk.images && in.in_place && a->beta == 0; image++)
        memset(dX + (size_t)image * next, 0, sizeof(float) * size);
    return in.in_place ? dX : full;
}

static void backward_input(const Pass *pass, const Scratch *scratch, int item) {
    const struct conv2d_backward_input_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    Chunk chunk = chunk_of(t, item * t->chunk, s->N);
    float *planes[MOST_AT_ONCE], *lane[VL], *full = planes_of_member(scratch);
    float *nobody = full + scratch->full * COPIES_AT_ONCE;
    int some = channels_at_once(t->in);
    transform_output_gradients(s, t, scratch, chunk, a->dY);
    multiply_all(s, pass, scratch, a->W, true);
#pragma omp for schedule(static)
    for (int first = 0; first < s->C; first += some) {
        int end = smaller(first + some, s->C);
        for (int c = first; c < end; c++)
            planes[c - first] = planes_to_add_to(t->in, scratch, chunk, a, c,
                                                 full + (size_t)(c - first) * scratch->full);
        for (size_t tile = 0; tile < chunk.tiles; tile += VL)
            for (int c = first; c < end; c++) {
                const float *at = scratch->in + tile * (size_t)s->C + (size_t)c * VL;
                for (size_t i = 0; i < VL; i++)
                    lane[i] = tile + i < chunk.tiles
                                  ? planes[c - first] + scratch->in_start[tile + i]
                                  : nobody;
                input_gradient_from_points(t->piece, at, in_point(t), lane, t->in.width);
            }
        for (int c = first; c < end && !t->in.in_place; c++)
            store_channel(s, t->in, chunk, planes[c - first], c,
                          (Output){a->dX, NULL, a->beta, NULL});
    }
}

static void pass_over_images(CpuLane *lane, const struct conv2d_shape *s, const float *W,
                             const unsigned char *pooled, const void *args, bool backward) {
    Pass pass = {.args = args, .t = tiling_of(s, pooled)};
    pass.teams = cut_images(&pass.t, s->N, lane->threads);
    Kernels all = all_kernels(s), some = some_kernels(s, backward, 0, ROWS_AT_ONCE);
    Room room = pass.teams.own ? (Room){.member = some.size} : (Room){.shared = all.size};
    room.channels = COPIES_AT_ONCE;
    pass.scratch = scratch_of(lane, &pass.t, pass.teams, room);
    if (!pass.teams.own) {
#pragma omp parallel for num_threads(lane->threads) schedule(static)
        for (int m = 0; m < s->M; m++) transform_kernel(s, W, all, m, pass.scratch.shared);
    }
    share_items(&pass, num_chunks(&pass.t, s->N), backward ? backward_input : forward);
}

void winograd_forward(CpuLane *lane, const struct conv2d_forward_args *a) {
    pass_over_images(lane, &a->s, a->W, a->pooled, a, false);
}

void winograd_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a) {
    pass_over_images(lane, &a->s, a->W, a->pooled, a, true);
}

// ---- the gradient of the kernels ---------------------------------------------------------------

// Groups of images as in cpu.h, but larger ones where a group would have little to do between
// writing dU to memory and reading it again.
static SumTree tree_of(const struct conv2d_shape *s, const Tiling *t) {
    enum { MOST_FLOATS = 4 << 20 };
    SumTree tree = sum_tree(s->N);
    while (tree.groups > 1 && (tree.group * t->rows * t->cols < LEAST_TILES ||
                               all_kernels(s).size * (size_t)tree.groups > MOST_FLOATS)) {
        tree.group *= 2;
        tree.groups = (s->N + tree.group - 1) / tree.group;
    }
    return tree;
}

// Chunks of a group. The sum over several of them is over all kernels.
static Teams cut_group(Tiling *t, const struct conv2d_shape *s, SumTree tree, int threads) {
    size_t bytes = all_kernels(s).size * sizeof(float);
    bool small = bytes < CORE_BYTES / 2 && images_of_core(t);
    int most = small ? images_of_core(t) : images_in(t, GROUP_BYTES);
    int images = smaller(tree.group, s->N), chunks = (images + most - 1) / most;
    set_chunk(t, (images + chunks - 1) / chunks);
    if (small && tree.groups >= threads) return (Teams){threads, 1, .own = false};
    return (Teams){1, threads, .own = chunks == 1 && bytes > KERNEL_BYTES};
}

// VL channels of a tile side by side at the points, instead of VL tiles of a channel: what the next
// product sums over are tiles. Lanes without a channel have the last one again.
static void input_channels_to_points(const struct conv2d_shape *s, const Tiling *t,
                                     const Scratch *scratch, Chunk chunk, const float *X) {
    float *full = zeros_for_copies(scratch, t->in, VL);
#pragma omp for schedule(static)
    for (int c = 0; c < s->C; c += VL) {
        const float *plane[VL], *lane[VL], *last = full;
        int lanes = smaller(VL, s->C - c);
        for (int i = 0; i < VL; i++)
            if (i < lanes)
                last = plane[i] =
                    planes_to_read(s, t->in, chunk, X, c + i, full + (size_t)i * scratch->full);
            else
                plane[i] = last;
        float *at = scratch->in + (size_t)c * chunk.tiles;
        for (size_t tile = 0; tile < chunk.tiles; tile++, at += VL) {
            for (int i = 0; i < VL; i++) lane[i] = plane[i] + scratch->in_start[tile];
            input_to_points(t->piece, lane, t->in.width, at, in_point(t));
        }
    }
}

static void output_channels_to_points(const struct conv2d_shape *s, const Tiling *t,
                                      const Scratch *scratch, Chunk chunk, const float *dY) {
    float *full = zeros_for_copies(scratch, t->out, VL);
    PooledTiles pooled = {.width = (size_t)s->out_w / 2};
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m += VL) {
        const float *lane[VL];
        int lanes = smaller(VL, s->M - m);
        for (int i = 0; i < lanes && !t->out.in_place; i++)
            copy_channel(s, t->out, chunk, dY, m + i, full + (size_t)i * scratch->full);
        float *at = scratch->out + (size_t)m * chunk.tiles;
        for (size_t tile = 0; tile < chunk.tiles; tile++, at += VL) {
            for (int i = 0; i < VL; i++) {
                int own = smaller(i, lanes - 1);
                lane[i] = full + (size_t)own * scratch->full + scratch->out_start[tile];
                if (t->out.in_place)
                    set_lane(&pooled, i, dY, t->out.pooled,
                             pooled_at(&t->out, scratch, chunk, m + own, tile));
            }
            if (t->out.in_place)
                pooled_gradient_to_points(t->piece, &pooled, at, out_point(t));
            else
                output_gradient_to_points(t->piece, lane, t->out.width, at, out_point(t));
        }
    }
}

// dU += out in^T at a point, for these kernels; or dU is overwritten.
static void multiply_back(const Tiling *t, const Scratch *scratch, size_t tiles, Kernels k, int p,
                          float *dU, bool overwrite) {
    Product back = {.A = scratch->out + (size_t)p * out_point(t) + (size_t)k.m * tiles,
                    .a_row = 1,
                    .a_col = VL,
                    .a_block = tiles * VL,
                    .B = scratch->in + (size_t)p * in_point(t) + (size_t)k.c * tiles,
                    .b_block = tiles * VL,
                    .C = dU + (size_t)p * k.point,
                    .c_row = k.stride,
                    .c_block = VL,
                    .rows = k.M,
                    .vectors = (int)(k.stride / VL),
                    .depth = (int)tiles,
                    .add = !overwrite};
    product(&back);
}

// The gradient of all kernels after the only chunk of a group: each thread takes some at a time, as
// in multiply_all().
static void gradient_of_kernels(const struct conv2d_shape *s, const Pass *pass,
                                const Scratch *scratch, size_t tiles, float *dW) {
    float *dU = kernels_of_member(scratch);
#pragma omp for schedule(static)
    for (int first = 0; first < s->C; first += COLUMNS_AT_ONCE) {
        Kernels k = some_kernels(s, true, first, COLUMNS_AT_ONCE);
        for (int p = 0; p < pass->t.points; p++)
            multiply_back(&pass->t, scratch, tiles, k, p, dU, true);
        for (int m = 0; m < s->M; m++) kernel_gradient(s, dU, k, m, dW);
    }
}

// The same after one of several chunks: the sum over them is of all kernels.
static void add_to_gradient(const struct conv2d_shape *s, const Pass *pass, const Scratch *scratch,
                            size_t tiles, bool first, bool last, float *dW) {
    Kernels all = all_kernels(s);
#pragma omp for schedule(static)
    for (int p = 0; p < pass->t.points; p++)
        multiply_back(&pass->t, scratch, tiles, all, p, scratch->U, first);
    if (!last) return;
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m++) kernel_gradient(s, scratch->U, all, m, dW);
}

// A group's part of dW.
static void backward_weights(const Pass *pass, const Scratch *scratch, int group) {
    const struct conv2d_backward_params_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    int start = group * pass->tree.group, end = smaller(start + pass->tree.group, s->N);
    float *dW = pass->parts + pass->part * (size_t)group;
    for (int first = start; first < end; first += t->chunk) {
        Chunk chunk = chunk_of(t, first, end);
        input_channels_to_points(s, t, scratch, chunk, a->X);
        output_channels_to_points(s, t, scratch, chunk, a->dY);
        if (pass->teams.own)
            gradient_of_kernels(s, pass, scratch, chunk.tiles, dW);
        else
            add_to_gradient(s, pass, scratch, chunk.tiles, first == start, first + t->chunk >= end,
                            dW);
    }
}

// dW of kernel m = beta dW + the sum of the groups' parts.
static void add_groups(const struct conv2d_backward_params_args *a, const Pass *pass, int m) {
    size_t size = (size_t)a->s.C * (size_t)(a->s.kernel_h * a->s.kernel_w);
    float *sum = pass->parts + (size_t)m * size, *dW = a->dW + (size_t)m * size;
    add_halves(sum, pass->part, pass->tree.groups, size);
    store_sums(dW, sum, size, a->beta);
}

void winograd_backward_weights(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const struct conv2d_shape *s = &a->s;
    Pass pass = {.args = a, .t = tiling_of(s, a->pooled)};
    pass.tree = tree_of(s, &pass.t);
    pass.teams = cut_group(&pass.t, s, pass.tree, lane->threads);
    pass.part =
        round_to_vectors((size_t)s->M * (size_t)s->C * (size_t)s->kernel_h * (size_t)s->kernel_w);
    bool alone = pass.tree.groups == 1 && a->beta == 0; // then its part is all of dW
    Room room = {.shared = alone ? 0 : pass.part * (size_t)pass.tree.groups};
    if (pass.teams.own)
        room.member = some_kernels(s, true, 0, COLUMNS_AT_ONCE).size;
    else
        room.team = all_kernels(s).size;
    room.channels = VL;
    pass.scratch = scratch_of(lane, &pass.t, pass.teams, room);
    pass.parts = alone ? a->dW : pass.scratch.shared;
    share_items(&pass, pass.tree.groups, backward_weights);
    if (alone) return;
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int m = 0; m < s->M; m++) add_groups(a, &pass, m);
}
