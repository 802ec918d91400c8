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
        .in = {s->C, s->H, s->W, s->pad_h, s->pad_w, NULL, 0, 0},
        .out = {s->M, s->out_h, s->out_w, 0, 0, pooled, 0, 0},
        .piece = piece_of(s),
        .rows = (s->out_h + TILE - 1) / TILE,
        .cols = (s->out_w + TILE - 1) / TILE,
    };
    t.points = t.piece * t.piece;
    t.out.full_h = t.rows * TILE, t.out.full_w = t.cols * TILE;
    t.in.full_h = t.out.full_h + t.piece - TILE, t.in.full_w = t.out.full_w + t.piece - TILE;
    return t;
}

static void set_chunk(Tiling *t, int images) {
    t->chunk = images;
    t->stride = round_to_vectors((size_t)t->rows * (size_t)t->cols * (size_t)images);
}

enum { MOST_KERNEL = 5 * 5 };

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

// The scratch memory of a pass, in floats:
//
//     shared | team 0 | team 1 | ... | starts of pieces | starts of tiles
//     of a team:    U | in | out | keep | member 0 | member 1 | ...
//     of a member:  the images of some channels | one more tile | some kernels
//
// `keep` says which output pixels of a chunk are not blank, see find_blanks().
typedef struct Scratch {
    float *shared;             // all kernels, or all parts of the gradient
    float *U, *in, *out;       // at their points: kernels, pieces of the input, tiles of the output
    float *members;            // the first one's
    int *in_start, *out_start; // where pieces and tiles start in the images of a channel
    unsigned *keep;            // of each image of a chunk: bits to keep, for each of its pixels
    bool *has_blanks;          // of each image of a chunk
    size_t of_U, of_in, of_out, of_team, of_member, full, planes; // floats
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
    size_t tile = (size_t)t->piece * (size_t)t->in.full_w + 4; // they are read by fours
    s.full = round_to_vectors((size_t)t->chunk * full_size(t->in) + 4);
    if (s.full < image) s.full = round_to_vectors(image);
    s.of_in = pieces * in_point(t);
    s.of_out = pieces * out_point(t);
    s.planes = s.full * room.channels + round_to_vectors(tile);
    s.of_member = s.planes + room.member;
    s.of_team = s.of_U + s.of_in + s.of_out + round_to_vectors(keep + (size_t)t->chunk) +
                s.of_member * (size_t)teams.members;
    size_t floats = room.shared + s.of_team * (size_t)teams.teams + 2 * t->stride;
    s.shared = cpu_scratch(lane, sizeof(float) * floats);
    s.U = s.shared + room.shared;
    s.in_start = (int *)(s.U + s.of_team * (size_t)teams.teams);
    s.out_start = s.in_start + t->stride;
    find_tiles(t, t->in, s.in_start);
    find_tiles(t, t->out, s.out_start);
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

// The tiles of a channel, to the points. The images of the channel are there, `at` is its first
// vector at the first point, and the next one is `channels` vectors further.
static void tiles_to_points(const Tiling *t, Side side, const int *start, const float *full,
                            float *at, size_t point) {
    const float *lane[VL];
    for (size_t tile = 0; tile < t->stride; tile += VL, at += (size_t)side.channels * VL) {
        for (int i = 0; i < VL; i++) lane[i] = full + start[tile + (size_t)i];
        input_to_points(t->piece, lane, (size_t)side.full_w, at, point);
    }
}

static void transform_inputs(const struct conv2d_shape *s, const Tiling *t, const Scratch *scratch,
                             Chunk chunk, const float *X) {
    float *full = planes_of_member(scratch);
    memset(full, 0, sizeof(float) * scratch->full);
#pragma omp for schedule(static)
    for (int c = 0; c < s->C; c++) {
        copy_channel(s, t->in, chunk, X, c, full);
        tiles_to_points(t, t->in, scratch->in_start, full, scratch->in + (size_t)c * VL,
                        in_point(t));
    }
}

static void transform_output_gradients(const struct conv2d_shape *s, const Tiling *t,
                                       const Scratch *scratch, Chunk chunk, const float *dY) {
    const float *lane[VL];
    float *full = planes_of_member(scratch);
    memset(full, 0, sizeof(float) * scratch->full);
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m++) {
        float *at = scratch->out + (size_t)m * VL;
        copy_channel(s, t->out, chunk, dY, m, full);
        for (size_t tile = 0; tile < t->stride; tile += VL, at += (size_t)s->M * VL) {
            for (int i = 0; i < VL; i++) lane[i] = full + scratch->out_start[tile + (size_t)i];
            output_gradient_to_points(t->piece, lane, (size_t)t->out.full_w, at, out_point(t));
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

// From the points to the pixels of channel m: those of all tiles. Lanes without a tile write into
// `nobody`.
static void tiles_from_points(const Tiling *t, const Scratch *scratch, size_t tiles, int m,
                              float *full, float *nobody) {
    float *lane[VL];
    const float *at = scratch->out + (size_t)m * VL;
    for (size_t tile = 0; tile < tiles; tile += VL, at += (size_t)t->out.channels * VL) {
        for (size_t i = 0; i < VL; i++)
            lane[i] = tile + i < tiles ? full + scratch->out_start[tile + i] : nobody;
        output_from_points(t->piece, at, out_point(t), lane, (size_t)t->out.full_w);
    }
}

// What the tiles gave of channel m: see winograd_exact.h.
static void make_exact(const struct conv2d_forward_args *a, Side out, Chunk chunk,
                       const Scratch *scratch, int m, float *full) {
    const unsigned *keep = scratch->keep;
    for (int image = 0; image < chunk.images; image++) {
        if (scratch->has_blanks[image]) erase_blanks(&a->s, (size_t)out.full_w, keep, full);
        if (a->b)
            mend_small_pixels(a, chunk.first + image, m, (size_t)out.full_w, full_size(out), full);
        keep += full_size(out), full += full_size(out);
    }
}

static void forward(const Pass *pass, const Scratch *scratch, int item) {
    const struct conv2d_forward_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    Chunk chunk = chunk_of(t, item * t->chunk, s->N);
    float *full = planes_of_member(scratch), *nobody = full + scratch->full;
#pragma omp for schedule(static)
    for (int image = 0; image < chunk.images; image++)
        scratch->has_blanks[image] =
            find_blanks(s, a->X + (size_t)(chunk.first + image) * (size_t)(s->C * s->H * s->W),
                        (size_t)t->out.full_w, scratch->keep + (size_t)image * full_size(t->out),
                        (unsigned *)full);
    transform_inputs(s, t, scratch, chunk, a->X);
    multiply_all(s, pass, scratch, a->W, false);
#pragma omp for schedule(static)
    for (int m = 0; m < s->M; m++) {
        tiles_from_points(t, scratch, chunk.tiles, m, full, nobody);
        make_exact(a, t->out, chunk, scratch, m, full);
        store_channel(s, t->out, chunk, full, m, (Output){a->Y, a->b, 0, a->pooled});
    }
}

static void backward_input(const Pass *pass, const Scratch *scratch, int item) {
    const struct conv2d_backward_input_args *a = pass->args;
    const struct conv2d_shape *s = &a->s;
    const Tiling *t = &pass->t;
    Chunk chunk = chunk_of(t, item * t->chunk, s->N);
    float *lane[VL], *full = planes_of_member(scratch), *nobody = full + scratch->full;
    transform_output_gradients(s, t, scratch, chunk, a->dY);
    multiply_all(s, pass, scratch, a->W, true);
#pragma omp for schedule(static)
    for (int c = 0; c < s->C; c++) {
        const float *at = scratch->in + (size_t)c * VL;
        memset(full, 0, sizeof(float) * scratch->full);
        for (size_t tile = 0; tile < chunk.tiles; tile += VL, at += (size_t)s->C * VL) {
            for (size_t i = 0; i < VL; i++)
                lane[i] = tile + i < chunk.tiles ? full + scratch->in_start[tile + i] : nobody;
            input_gradient_from_points(t->piece, at, in_point(t), lane, (size_t)t->in.full_w);
        }
        store_channel(s, t->in, chunk, full, c, (Output){a->dX, NULL, a->beta, NULL});
    }
}

static void pass_over_images(CpuLane *lane, const struct conv2d_shape *s, const float *W,
                             const unsigned char *pooled, const void *args, bool backward) {
    Pass pass = {.args = args, .t = tiling_of(s, pooled)};
    pass.teams = cut_images(&pass.t, s->N, lane->threads);
    Kernels all = all_kernels(s), some = some_kernels(s, backward, 0, ROWS_AT_ONCE);
    Room room = pass.teams.own ? (Room){.member = some.size} : (Room){.shared = all.size};
    room.channels = 1;
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
typedef void ToPoints(int piece, const float *const lane[VL], size_t width, float *points,
                      size_t point);
static void channels_to_points(const struct conv2d_shape *s, const Tiling *t,
                               const Scratch *scratch, Side side, Chunk chunk, const float *images,
                               bool is_input) {
    ToPoints *to_points = is_input ? input_to_points : output_gradient_to_points;
    const int *start = is_input ? scratch->in_start : scratch->out_start;
    size_t point = is_input ? in_point(t) : out_point(t);
    float *full = planes_of_member(scratch), *first = is_input ? scratch->in : scratch->out;
    memset(full, 0, sizeof(float) * scratch->full * VL);
#pragma omp for schedule(static)
    for (int c = 0; c < side.channels; c += VL) {
        const float *plane[VL], *lane[VL];
        for (int i = 0; i < VL; i++) {
            int lanes = smaller(VL, side.channels - c), own = smaller(i, lanes - 1);
            plane[i] = full + (size_t)own * scratch->full;
            if (i < lanes)
                copy_channel(s, side, chunk, images, c + i, full + (size_t)i * scratch->full);
        }
        float *at = first + (size_t)c * chunk.tiles;
        for (size_t tile = 0; tile < chunk.tiles; tile++, at += VL) {
            for (int i = 0; i < VL; i++) lane[i] = plane[i] + start[tile];
            to_points(t->piece, lane, (size_t)side.full_w, at, point);
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
        channels_to_points(s, t, scratch, t->in, chunk, a->X, true);
        channels_to_points(s, t, scratch, t->out, chunk, a->dY, false);
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
    for (size_t i = 0; i < size; i++) dW[i] = a->beta != 0 ? dW[i] + sum[i] : sum[i];
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
