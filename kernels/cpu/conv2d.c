// conv2d.c: 2-d convolution (cross-correlation, as in all of deep learning). First what is
// computed, in seven plain loops each; then how it is computed fast, as matrix products.
#include "cpu.h"
#include "naive.h"
#include "relu_pool.h"
#include "winograd.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct conv2d_shape Shape;

static size_t x_size(const Shape *s) { // one image
    return (size_t)s->C * (size_t)s->H * (size_t)s->W;
}
static size_t y_size(const Shape *s) { return (size_t)s->M * (size_t)s->out_h * (size_t)s->out_w; }
static size_t w_size(const Shape *s) {
    return (size_t)s->C * (size_t)s->kernel_h * (size_t)s->kernel_w;
}

// ---- what ------------------------------------------------------------------------------------

// Runs through all products that a convolution consists of: output pixel (n,m,i,j) has weight
// (m,c,p,q) times input pixel (n,c,h,w). Forward and both backward passes are this one sum, seen
// from Y, X and W.
#define FOR_EACH_PRODUCT(s)                                                                        \
    for (int n = 0; n < (s)->N; n++)                                                               \
        for (int m = 0; m < (s)->M; m++)                                                           \
            for (int i = 0; i < (s)->out_h; i++)                                                   \
                for (int j = 0; j < (s)->out_w; j++)                                               \
                    for (int c = 0; c < (s)->C; c++)                                               \
                        for (int p = 0; p < (s)->kernel_h; p++)                                    \
                            for (int q = 0; q < (s)->kernel_w; q++)

// The offsets of the three numbers of one product, and whether the pixel lies in the padding.
#define Y_AT   (((size_t)n * s->M + m) * s->out_h + i) * s->out_w + j
#define W_AT   (((size_t)m * s->C + c) * s->kernel_h + p) * s->kernel_w + q
#define X_AT   (((size_t)n * s->C + c) * s->H + h) * s->W + w
#define INSIDE (h >= 0 && h < s->H && w >= 0 && w < s->W)
#define H_OF   (i * s->stride_h + p - s->pad_h)
#define W_OF   (j * s->stride_w + q - s->pad_w)

// out = beta out + sums
static void finish(float *out, const double *sums, size_t n, float beta) {
    for (size_t i = 0; i < n; i++) out[i] = (float)(beta != 0 ? out[i] + sums[i] : sums[i]);
}

void conv2d_forward_naive(const struct conv2d_forward_args *a) {
    const Shape *s = &a->s;
    size_t size = (size_t)s->N * y_size(s);
    double *Y = calloc(size + 1, sizeof *Y);
    FOR_EACH_PRODUCT(s) {
        int h = H_OF, w = W_OF;
        if (INSIDE) Y[Y_AT] += (double)a->W[W_AT] * a->X[X_AT];
    }
    for (size_t i = 0; i < size && a->b; i++)
        Y[i] += a->b[i / ((size_t)s->out_h * s->out_w) % (size_t)s->M];
    finish(a->Y, Y, size, 0);
    free(Y);
}

void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a) {
    const Shape *s = &a->s;
    size_t size = (size_t)s->N * x_size(s);
    double *dX = calloc(size + 1, sizeof *dX);
    FOR_EACH_PRODUCT(s) {
        int h = H_OF, w = W_OF;
        if (INSIDE) dX[X_AT] += (double)a->W[W_AT] * a->dY[Y_AT];
    }
    finish(a->dX, dX, size, a->beta);
    free(dX);
}

void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    size_t size = (size_t)s->M * w_size(s);
    double *dW = calloc(size + (size_t)s->M, sizeof *dW), *db = dW + size;
    FOR_EACH_PRODUCT(s) {
        int h = H_OF, w = W_OF;
        if (INSIDE) dW[W_AT] += (double)a->X[X_AT] * a->dY[Y_AT];
    }
    size_t pixels = (size_t)s->out_h * (size_t)s->out_w;
    for (size_t i = 0; i < (size_t)s->N * y_size(s); i++) db[i / pixels % (size_t)s->M] += a->dY[i];
    finish(a->dW, dW, size, a->beta);
    if (a->db) finish(a->db, db, (size_t)s->M, a->beta);
    free(dW);
}

// ---- how -------------------------------------------------------------------------------------
//
// The defect of the loops: about one useful multiplication per loop test, and no reuse of what is
// in the cache. A convolution of one image is a matrix product, though: let column (i,j) of a
// matrix `cols` hold the K = C kernel_h kernel_w pixels that output pixel (i,j) sees ("im2col");
// then Y = W cols, with W (M,K) as it lies in memory, and backward dW = dY cols^T, dcols = W^T dY.
// BLAS does those at nearly the speed of the machine.
//
// Each thread takes whole images, with a single-threaded BLAS and scratch memory of its own: a
// small product fits the core's own cache, and threads need not meet until all images are done.
//
// Kernels of 3x3 and 5x5 with stride 1 and many channels go another way, with fewer
// multiplications: winograd.c. What follows is for all others.
//
// A product of few columns has a defect too: it reads all of W for little work (the last layers of
// ResNet-18 have 2.4 million weights, and 16 pixels an image). So several small images share one
// product, their columns side by side.

// Images that share a product: `images` of them from image `first` on; of those, `channels`
// channels of X from channel `c` on. If they are to be pooled, the columns of an image are those of
// its even rows of output pixels, then those of the odd rows: then what is pooled together lies in
// two long rows, and not in many short ones.
typedef struct Tile {
    int first, images, c, channels;
    bool pooled;
} Tile;

// From about this many columns on, BLAS is nearly as fast as it gets.
enum { COLUMNS = 128 };

static size_t out_pixels(const Shape *s) { return (size_t)s->out_h * (size_t)s->out_w; }

// Depends on the shapes alone: with any number of threads, products and so bits are the same.
static int images_per_product(const Shape *s, int most) {
    int pixels = (int)out_pixels(s), images = pixels > 0 ? (COLUMNS + pixels - 1) / pixels : 1;
    return images < most ? images : most > 1 ? most : 1;
}

// Enough tiles that four cores have work.
static int images_per_tile(const Shape *s) { return images_per_product(s, (s->N + 3) / 4); }

static Tile tile_of_images(const Shape *s, int first, int images, bool pooled) {
    return (Tile){first, first + images < s->N ? images : s->N - first, 0, s->C, pooled};
}

// Runs through the rows i of output pixels in the order of their columns.
#define FOR_ROWS(i, s, t)                                                                          \
    for (int step = (t).pooled ? 2 : 1, odd = 0; odd < step; odd++)                                \
        for (int i = odd; i < (s)->out_h; i += step)

// Rows of `cols` are copied in pieces of this many floats, a size known to the compiler. The last
// piece of a row may run over into what is written after it, or into the slack at the end.
enum { PIECE = 16 };

static size_t round_up(size_t n) { return (n + PIECE - 1) / PIECE * PIECE; }

typedef struct Scratch { // of one thread, in floats: for a tile,
    size_t padded;       // its images with their padding,
    size_t cols;         // their columns,
    size_t y;            // and their pixels of Y or dY, channel by channel, if not used in place
} Scratch;

static int padded_h(const Shape *s) { return s->H + 2 * s->pad_h; }
static int padded_w(const Shape *s) { return s->W + 2 * s->pad_w; }

static Scratch scratch_for(const Shape *s, Tile t) {
    size_t images = (size_t)t.images, channels = (size_t)t.channels;
    size_t window = (size_t)s->kernel_h * (size_t)s->kernel_w;
    size_t padded = images * channels * (size_t)padded_h(s) * (size_t)padded_w(s);
    return (Scratch){
        .padded = round_up(padded + PIECE),
        .cols = round_up(channels * window * images * out_pixels(s) + PIECE),
        .y = images > 1 || t.pooled ? round_up((size_t)s->M * images * out_pixels(s)) : 0,
    };
}
static size_t scratch_floats(Scratch size) { return size.padded + size.cols + size.y; }

// Where image g of the tile has its channel c, among padded images.
static size_t padded_at(const Shape *s, Tile t, int g, int c) {
    return ((size_t)g * t.channels + c) * (size_t)padded_h(s) * (size_t)padded_w(s);
}

// Copies with zeros around them (and slack behind them), so that im2col needs no tests for the
// border.
static void pad_images(const Shape *s, Tile t, const float *X, float *padded) {
    int W = padded_w(s);
    if (s->pad_h || s->pad_w) memset(padded, 0, sizeof(float) * padded_at(s, t, t.images, 0));
    for (int g = 0; g < t.images; g++)
        for (int c = 0; c < t.channels; c++) {
            const float *from =
                X + (size_t)(t.first + g) * x_size(s) + (size_t)(t.c + c) * s->H * s->W;
            float *to = padded + padded_at(s, t, g, c) + (size_t)s->pad_h * W + s->pad_w;
            for (int h = 0; h < s->H; h++, from += s->W, to += W)
                memcpy(to, from, sizeof(float) * (size_t)s->W);
        }
}

// One row of output pixels, all of which see the weight (c,p,q): every stride-th pixel of an input
// row.
static inline void copy_row(float *restrict to, const float *restrict from, int count, int stride) {
    if (stride == 1) {
        for (int j = 0; j < count; j += PIECE) memcpy(to + j, from + j, sizeof(float) * PIECE);
    } else {
        for (int j = 0; j < count; j++) to[j] = from[(size_t)j * (size_t)stride];
    }
}

SIMD_CLONES static void im2col(const Shape *s, Tile t, const float *padded, float *cols) {
    int W = padded_w(s), out_w = s->out_w;
    for (int c = 0; c < t.channels; c++)
        for (int p = 0; p < s->kernel_h; p++)
            for (int q = 0; q < s->kernel_w; q++)
                for (int g = 0; g < t.images; g++) {
                    const float *from = padded + padded_at(s, t, g, c) + (size_t)p * W + q;
                    FOR_ROWS(i, s, t) {
                        copy_row(cols, from + (size_t)i * s->stride_h * W, out_w, s->stride_w);
                        cols += out_w;
                    }
                }
}

static inline void add_row(float *restrict to, const float *restrict from, int count, int stride) {
    if (stride == 1) {
        for (int j = 0; j < count; j++) to[j] += from[j];
    } else {
        for (int j = 0; j < count; j++) to[(size_t)j * (size_t)stride] += from[j];
    }
}

// The reverse: each column gives its numbers back to the pixels that it was copied from.
SIMD_CLONES static void col2im(const Shape *s, Tile t, const float *cols, float *padded) {
    int W = padded_w(s), out_w = s->out_w;
    memset(padded, 0, sizeof(float) * padded_at(s, t, t.images, 0));
    for (int c = 0; c < t.channels; c++)
        for (int p = 0; p < s->kernel_h; p++)
            for (int q = 0; q < s->kernel_w; q++)
                for (int g = 0; g < t.images; g++) {
                    float *to = padded + padded_at(s, t, g, c) + (size_t)p * W + q;
                    FOR_ROWS(i, s, t) {
                        add_row(to + (size_t)i * s->stride_h * W, cols, out_w, s->stride_w);
                        cols += out_w;
                    }
                }
}

// The columns of a tile. An image under a 1x1 convolution with stride 1 has them already.
static const float *columns_of(const Shape *s, Tile t, const float *X, float *mine, Scratch size) {
    bool is_its_columns =
        s->kernel_h * s->kernel_w * s->stride_h * s->stride_w == 1 && s->pad_h + s->pad_w == 0;
    if (is_its_columns && t.images == 1 && !t.pooled)
        return X + (size_t)t.first * x_size(s) + (size_t)t.c * s->H * s->W;
    pad_images(s, t, X, mine);
    im2col(s, t, mine, mine + size.padded);
    return mine + size.padded;
}

static size_t windows_2x2(const Shape *s) { return out_pixels(s) / 4; }

// ---- between the tensors Y, dY and matrices (M, images out_pixels)

// dY of a tile; as it lies in memory, if it is that of one image.
static const float *gather(const Shape *s, Tile t, const float *dY, const unsigned char *pooled,
                           float *to) {
    size_t P = out_pixels(s), first = (size_t)t.first * (size_t)s->M;
    if (t.images == 1 && !pooled) return dY + first * P;
    for (int m = 0; m < s->M; m++)
        for (int g = 0; g < t.images; g++) {
            size_t plane = first + (size_t)g * s->M + m, mine = (size_t)m * t.images + g;
            if (pooled)
                unpool(s, dY + plane * windows_2x2(s), pooled + 2 * plane * windows_2x2(s),
                       to + mine * P);
            else
                memcpy(to + mine * P, dY + plane * P, sizeof(float) * P);
        }
    return to;
}

SIMD_CLONES static void add_bias_to(float *Y, const float *X, float bias, size_t n) {
    for (size_t i = 0; i < n; i++) Y[i] = X[i] + bias;
}

// Y of a tile goes to its place, with the bias, and pooled.
static void scatter(const struct conv2d_forward_args *a, Tile t, float *from) {
    const Shape *s = &a->s;
    size_t P = out_pixels(s);
    for (int m = 0; m < s->M; m++)
        for (int g = 0; g < t.images; g++, from += P) {
            size_t plane = (size_t)(t.first + g) * s->M + m;
            float bias = a->b ? a->b[m] : 0;
            if (a->pooled)
                relu_and_pool(s, from, bias, a->Y + plane * windows_2x2(s),
                              a->pooled + 2 * plane * windows_2x2(s));
            else
                add_bias_to(a->Y + plane * P, from, bias, P);
        }
}

CPU_KERNEL(conv2d_forward) {
    const Shape *s = &a->s;
    if (winograd_suits(s)) {
        winograd_forward(lane, a);
        return;
    }
    int images = images_per_tile(s), K = (int)w_size(s);
    Scratch size = scratch_for(s, (Tile){.images = images, .channels = s->C, .pooled = a->pooled});
    float *scratch =
        cpu_scratch(lane, sizeof(float) * scratch_floats(size) * (size_t)lane->threads);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n += images) {
        Tile t = tile_of_images(s, n, images, a->pooled);
        int columns = t.images * (int)out_pixels(s);
        float *mine = scratch + (size_t)omp_get_thread_num() * scratch_floats(size);
        const float *cols = columns_of(s, t, a->X, mine, size);
        bool in_place = t.images == 1 && !a->pooled;
        float *Y = in_place ? a->Y + (size_t)n * y_size(s) : mine + size.padded + size.cols;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s->M, columns, K, 1.0f, a->W, K,
                    cols, columns, 0.0f, Y, columns);
        if (!in_place || a->b) scatter(a, t, Y);
    }
}

// dX = beta dX + what lies inside the padding
static void unpad_images(const Shape *s, Tile t, const float *padded, float *dX, float beta) {
    int W = padded_w(s);
    for (int g = 0; g < t.images; g++)
        for (int c = 0; c < s->C; c++) {
            const float *from = padded + padded_at(s, t, g, c) + (size_t)s->pad_h * W + s->pad_w;
            float *to = dX + (size_t)(t.first + g) * x_size(s) + (size_t)c * s->H * s->W;
            for (int h = 0; h < s->H; h++, from += W, to += s->W)
                for (int w = 0; w < s->W; w++) to[w] = beta != 0 ? to[w] + from[w] : from[w];
        }
}

CPU_KERNEL(conv2d_backward_input) {
    const Shape *s = &a->s;
    if (winograd_suits(s)) {
        winograd_backward_input(lane, a);
        return;
    }
    int images = images_per_tile(s), K = (int)w_size(s);
    Scratch size = scratch_for(s, (Tile){.images = images, .channels = s->C, .pooled = a->pooled});
    float *scratch =
        cpu_scratch(lane, sizeof(float) * scratch_floats(size) * (size_t)lane->threads);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n += images) {
        Tile t = tile_of_images(s, n, images, a->pooled);
        int columns = t.images * (int)out_pixels(s);
        float *padded = scratch + (size_t)omp_get_thread_num() * scratch_floats(size);
        float *cols = padded + size.padded;
        const float *dY = gather(s, t, a->dY, a->pooled, cols + size.cols);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, K, columns, s->M, 1.0f, a->W, K, dY,
                    columns, 0.0f, cols, columns);
        col2im(s, t, cols, padded);
        unpad_images(s, t, padded, a->dX, a->beta);
    }
}

// ---- gradients of the parameters: a sum over images, as a tree (see cpu.h) -------------------
//
// A minibatch on one device may be a single group of the tree, so threads share a group's work too:
// each computes the gradients of the weights that see some of the input channels.

// Groups get larger than the tree would have them if all the parts together were more than 64 MB.
static SumTree tree_of_images(const Shape *s) {
    enum { MOST_BYTES = 64 << 20 };
    size_t part = sizeof(float) * (size_t)s->M * (w_size(s) + 1) + 1;
    SumTree tree = sum_tree(s->N);
    while (tree.groups > 1 && (size_t)tree.groups * part > MOST_BYTES)
        tree = (SumTree){.group = 2 * tree.group,
                         .groups = (s->N + 2 * tree.group - 1) / (2 * tree.group)};
    return tree;
}

// Input channels that are worked on together: enough for a product of a good size.
static int channels_per_slice(const Shape *s) {
    enum { LEAST = 32, MOST_SLICES = 8 };
    int channels = (s->C + MOST_SLICES - 1) / MOST_SLICES;
    return channels > LEAST ? channels : LEAST < s->C ? LEAST : s->C > 0 ? s->C : 1;
}

// The sum of n numbers. `simd reduction` allows several partial sums side by side; one after the
// other, each addition would wait for the one before. In double, for positive and negative pixels
// add up to little more than the rounding errors of a float.
SIMD_CLONES static double sum_of(const float *x, size_t n) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (size_t i = 0; i < n; i++) total += x[i];
    return total;
}

// The same before pooling: each number went to as many pixels as there are bits.
SIMD_CLONES static double sum_of_pooled(const float *x, const unsigned char *pooled, size_t n) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (size_t i = 0; i < n; i++) {
        int left = pooled[2 * i], right = pooled[2 * i + 1];
        int count = (left & 1) + (left >> 1) + (right & 1) + (right >> 1);
        total += x[i] * 0.25f * (float)count;
    }
    return total;
}

// The sum of channel m of dY over a group of images.
static double channel_sum(const struct conv2d_backward_params_args *a, int m, Tile group) {
    const Shape *s = &a->s;
    size_t n = a->pooled ? windows_2x2(s) : out_pixels(s);
    double total = 0;
    for (int image = group.first; image < group.first + group.images; image++) {
        size_t at = ((size_t)image * s->M + m) * n;
        total +=
            a->pooled ? sum_of_pooled(a->dY + at, a->pooled + 2 * at, n) : sum_of(a->dY + at, n);
    }
    return total;
}

// dW of the group's images and channels, into the columns of dW that belong to those channels.
static void weights_of_group(const struct conv2d_backward_params_args *a, Tile group, int images,
                             float *dW, float *mine, Scratch size) {
    const Shape *s = &a->s;
    int K = (int)w_size(s), window = s->kernel_h * s->kernel_w, last = group.first + group.images;
    dW += (size_t)group.c * window;
    for (int n = group.first; n < last; n += images) {
        Tile t = {n, n + images < last ? images : last - n, group.c, group.channels, group.pooled};
        int columns = t.images * (int)out_pixels(s);
        const float *cols = columns_of(s, t, a->X, mine, size);
        const float *dY = gather(s, t, a->dY, a->pooled, mine + size.padded + size.cols);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->M, group.channels * window, columns,
                    1.0f, dY, columns, cols, columns, n > group.first ? 1.0f : 0.0f, dW, K);
    }
}

// Adds up the parts, each thread a range of the n floats.
static void add_parts(float *parts, size_t stride, int num, size_t n, int threads) {
    int ranges = (int)((n + PARALLEL_FLOATS - 1) / PARALLEL_FLOATS);
#pragma omp parallel for num_threads(threads) schedule(static) if (ranges > 1)
    for (int range = 0; range < ranges; range++) {
        size_t first = (size_t)range * PARALLEL_FLOATS, left = n - first;
        add_halves(parts + first, stride, num, left < PARALLEL_FLOATS ? left : PARALLEL_FLOATS);
    }
}

static void store(float *out, const float *sum, size_t n, float beta) {
    for (size_t i = 0; i < n; i++) out[i] = beta != 0 ? out[i] + sum[i] : sum[i];
}

// db without dW, added up as a tree
static void bias_gradient(CpuLane *lane, const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    SumTree tree = tree_of_images(s);
    size_t M = (size_t)s->M;
    float *sums = cpu_scratch(lane, sizeof(float) * M * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads) schedule(static) collapse(2)
    for (int group = 0; group < tree.groups; group++)
        for (int m = 0; m < s->M; m++) {
            Tile t = tile_of_images(s, group * tree.group, tree.group, a->pooled);
            sums[(size_t)group * M + (size_t)m] = (float)channel_sum(a, m, t);
        }
    add_halves(sums, M, tree.groups, M);
    store(a->db, sums, M, a->beta);
}

CPU_KERNEL(conv2d_backward_params) {
    const Shape *s = &a->s;
    if (winograd_suits(s)) {
        winograd_backward_weights(lane, a);
        if (a->db) bias_gradient(lane, a);
        return;
    }
    SumTree tree = tree_of_images(s);
    int images = images_per_product(s, tree.group), channels = channels_per_slice(s);
    int slices = s->C > 0 ? (s->C + channels - 1) / channels : 1;
    Scratch size =
        scratch_for(s, (Tile){.images = images, .channels = channels, .pooled = a->pooled});
    size_t weights = (size_t)s->M * w_size(s), per_part = round_up(weights + (size_t)s->M);
    size_t per_thread = scratch_floats(size), threads = (size_t)lane->threads;
    float *scratch =
        cpu_scratch(lane, sizeof(float) * (per_thread * threads + per_part * (size_t)tree.groups));
    float *sums = scratch + per_thread * threads;
    if (s->N == 0) memset(sums, 0, sizeof(float) * per_part);
#pragma omp parallel for num_threads(lane->threads) schedule(static) collapse(2)
    for (int group = 0; group < tree.groups; group++)
        for (int slice = 0; slice < slices; slice++) {
            Tile t = tile_of_images(s, group * tree.group, tree.group, a->pooled);
            t.c = slice * channels;
            t.channels = t.c + channels < s->C ? channels : s->C - t.c;
            float *mine = scratch + (size_t)omp_get_thread_num() * per_thread;
            float *sum = sums + (size_t)group * per_part;
            weights_of_group(a, t, images, sum, mine, size);
            for (int m = 0; m < s->M && a->db && slice == 0; m++)
                sum[weights + m] = (float)channel_sum(a, m, t);
        }
    add_parts(sums, per_part, tree.groups, weights + (size_t)s->M, lane->threads);
    store(a->dW, sums, weights, a->beta);
    if (a->db) store(a->db, sums + weights, (size_t)s->M, a->beta);
}
