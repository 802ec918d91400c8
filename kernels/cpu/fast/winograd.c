// winograd.c: convolutions in a fraction of the multiplications, forward and back to the input.
// winograd_weights.c has the gradient of the kernels.
//
// As a matrix product, a convolution multiplies each pixel with 9 or 25 weights for each output
// channel, and product.c already does that at nearly the speed of the machine. The only way to be
// faster is to multiply less often: 36 times instead of 144 for kernels of 3x3, 64 times instead of
// 400 for 5x5. This is the method of Winograd (1980), as described by Lavin & Gray, "Fast
// algorithms for convolutional neural networks", 2016: F(4x4,3x3) and F(4x4,5x5) in their notation.
//
// The names below are theirs, too. A tile of 4x4 output pixels sees a piece d of the input, of 6x6
// pixels with a kernel g of 3x3 and of 8x8 pixels with one of 5x5, and
//
//     y = A^T [ (G g G^T) * (B^T d B) ] A           (* is element by element)
//
// takes 36 or 64 multiplications, where the loops take 16 x 9 or 16 x 25. The transforms G, B and A
// are additions and products with constants; each is done once for many products. The sum over
// input channels can be taken before A, so each of the 36 or 64 points is a separate matrix
// product,
//
//     (output channels, input channels) x (input channels, tiles)
//
// which product.c computes, with U = G g G^T. Backward to the input is the same in reverse order,
// with all matrices transposed. For the gradient of g each point is a product (output channels,
// tiles) x (tiles, input channels), followed by G^T.
//
// The transforms write their results in the order in which product() reads them: VL neighbouring
// columns side by side, then those of the next row. That is, VL tiles of a channel, then those of
// the next channel; or, for the gradient of g, VL channels of a tile, then those of the next tile.
#include "convolution.h"
#include "product.h"
#include "winograd_exact.h"
#include "winograd_images.h"

#include <limits.h>
#include <string.h>

bool winograd_suits(const struct conv2d_shape *s) {
    int k = s->kernel_h, least = k == 5 ? 4 : 16; // with fewer channels it is not worth it
    int most = k == 5 ? 128 : INT_MAX; // with more, errors are too large: 1e-4 with 300 for 5x5
    return k == s->kernel_w && (k == 3 || k == 5) && s->stride_h == 1 && s->stride_w == 1 &&
           s->pad_h < k && s->pad_w < k && s->C >= least && s->M >= least && s->C <= most &&
           s->M <= most && s->N > 0 && s->out_h > 0 && s->out_w > 0;
}

enum { ROWS_AT_ONCE = 16 };

// U: kernel m of W (M,C,k,k) transformed, VL input channels at a time. Lanes after the last channel
// repeat it.
static void transform_kernel(const struct conv2d_shape *s, const float *W, Kernels k, int m,
                             float *U) {
    size_t size = (size_t)(s->kernel_h * s->kernel_w);
    const float *first = W + ((size_t)m * s->C + k.c) * size, *lane[VL];
    U += (size_t)(m - k.m) * k.stride;
    for (int c = 0; c < k.C; c += VL) {
        for (int i = 0; i < VL; i++) lane[i] = first + (size_t)smaller(c + i, k.C - 1) * size;
        kernels_to_points(side_of_piece(s), lane, U + c, k.point);
    }
}

// ---- forward, and back to the input -------------------------------------------------------------
//
// All members of a team call the functions that work on a chunk. They share each `omp for` in it
// and wait for each other at its end.

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
                input_to_points(t->piece, lane, t->in.width, at, t->in_point);
            }
    }
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
        if (!t->out.in_place) {
            for (int m = first; m < end; m++)
                copy_channel(s, t->out, chunk, dY, m, full + (size_t)(m - first) * scratch->full);
        }
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
                    pooled_gradient_to_points(t->piece, &pooled, at, t->out_point);
                else
                    output_gradient_to_points(t->piece, lane, t->out.width, at, t->out_point);
            }
    }
}

// At each point, for the rows of these kernels: out = U in or, backward, in = U^T out.
static void multiply(const Tiling *t, const Scratch *scratch, const float *U, Kernels k,
                     bool backward) {
    size_t in = (size_t)t->in.channels * VL, out = (size_t)t->out.channels * VL;
    Product p = {.a_row = backward ? 1 : k.stride,
                 .a_col = backward ? k.stride : 1,
                 .b_block = backward ? out : in,
                 .c_block = backward ? in : out,
                 .c_row = VL,
                 .rows = backward ? k.C : k.M,
                 .depth = backward ? k.M : k.C,
                 .vectors = (int)(t->stride / VL)};
    for (int point = 0; point < t->points; point++) {
        float *at_in = scratch->in + (size_t)point * t->in_point + (size_t)k.c * VL;
        float *at_out = scratch->out + (size_t)point * t->out_point + (size_t)k.m * VL;
        p.A = U + (size_t)point * k.point;
        p.B = backward ? at_out : at_in;
        p.C = backward ? at_in : at_out;
        product(&p);
    }
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

// TileSizes of many tiles of a channel: sums of squares, and least sizes.
typedef struct SizesOfTiles {
    float *squares, *least;
} SizesOfTiles;

static SizesOfTiles sizes_of_channel(const Tiling *t, const Scratch *scratch, int number) {
    float *squares = sizes_of_member(scratch) + t->stride * (size_t)number;
    return (SizesOfTiles){squares, squares + t->stride * MOST_AT_ONCE};
}

static void keep_sizes(SizesOfTiles to, size_t tile, TileSizes sizes) {
    vec_to(to.squares + tile, sizes.squares);
    vec_to(to.least + tile, sizes.least);
}

// From the points to the pixels of channel m, for the tiles first..end. Lanes outside this range
// write to `nobody`.
static void tiles_from_points(const Tiling *t, const Scratch *scratch, size_t first, size_t end,
                              int m, float bias, SizesOfTiles sizes, float *full, float *nobody) {
    float *lane[VL];
    for (size_t tile = first / VL * VL; tile < end; tile += VL) {
        const float *at =
            scratch->out + (tile / VL * (size_t)t->out.channels * VL) + (size_t)m * VL;
        for (size_t i = tile; i < tile + VL; i++)
            lane[i - tile] = first <= i && i < end ? full + scratch->out_start[i] : nobody;
        keep_sizes(sizes, tile,
                   output_from_points(t->piece, at, t->out_point, bias, lane, t->out.width));
    }
}

// From the points to Y, for channel m of the images of a chunk from number `image` on.
static void images_from_points(const Pass *pass, const Scratch *scratch, Chunk chunk, int image,
                               int images, int m, SizesOfTiles sizes) {
    const struct conv2d_forward_args *a = pass->args;
    const Tiling *t = &pass->t;
    size_t size = full_size(t->out), tiles = (size_t)t->rows * (size_t)t->cols;
    float *planes = planes_of_member(scratch), *full = planes + (size_t)image * size;
    const unsigned *keep = scratch->keep + (size_t)image * size;
    size_t tile = (size_t)image * tiles, end = tile + (size_t)images * tiles;
    tiles_from_points(t, scratch, tile, end, m, a->b ? a->b[m] : 0, sizes, planes,
                      planes + scratch->full);
    // Removes rounding errors that ReLU would turn into wrong signs: winograd_exact.h.
    for (int i = 0; i < images; i++, full += size, keep += size, tile += tiles) {
        if (scratch->has_blanks[image + i]) erase_blanks(&a->s, t->out.width, keep, full);
        float limit =
            a->b ? limit_near_gate(sizes.squares + tile, sizes.least + tile, (int)tiles) : 0;
        if (limit > 0) mend_small_pixels(a, chunk.first + image + i, m, t->out.width, limit, full);
    }
    Chunk some = {chunk.first + image, images, (size_t)images * tiles};
    store_channel(&a->s, t->out, some, planes + (size_t)image * size, m,
                  (Output){a->Y, a->b, 0, a->pooled});
}

// From the points to Y for all images of a chunk, with ReLU and pooling in registers. Images with
// pixels that must be exact are then computed again by images_from_points().
static void pooled_channels_from_points(const Pass *pass, const Scratch *scratch, Chunk chunk,
                                        int first, int end) {
    const struct conv2d_forward_args *a = pass->args;
    const Tiling *t = &pass->t;
    int tiles = t->rows * t->cols;
    float *nobody = planes_of_member(scratch) + scratch->full;
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
            keep_sizes(sizes_of_channel(t, scratch, m - first), tile,
                       pooled_from_points(t->piece, at, t->out_point, a->b ? a->b[m] : 0, &to));
        }
    for (int m = first; m < end; m++) {
        SizesOfTiles sizes = sizes_of_channel(t, scratch, m - first);
        for (int image = 0; image < chunk.images; image++) {
            size_t at = (size_t)(image * tiles);
            if (scratch->has_blanks[image] ||
                (a->b && limit_near_gate(sizes.squares + at, sizes.least + at, tiles) > 0))
                images_from_points(pass, scratch, chunk, image, 1, m, sizes);
        }
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
                images_from_points(pass, scratch, chunk, 0, chunk.images, m,
                                   sizes_of_channel(t, scratch, 0));
    }
}

// Where the tiles of channel c of a chunk's images are added up: in dX, or in `full`, from zeros.
static float *planes_to_add_to(Side in, const Scratch *scratch, Chunk chunk,
                               const struct conv2d_backward_input_args *a, int c, float *full) {
    size_t size = (size_t)in.h * (size_t)in.w, next = size * (size_t)in.channels;
    float *dX = a->dX + (size_t)chunk.first * next + (size_t)c * size;
    if (!in.in_place) {
        memset(full, 0, sizeof(float) * scratch->full);
        return full;
    }
    if (a->beta == 0) {
        for (int image = 0; image < chunk.images; image++)
            memset(dX + (size_t)image * next, 0, sizeof(float) * size);
    }
    return dX;
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
                input_gradient_from_points(t->piece, at, t->in_point, lane, t->in.width);
            }
        if (t->in.in_place) continue;
        for (int c = first; c < end; c++)
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
