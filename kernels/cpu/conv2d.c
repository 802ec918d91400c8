// conv2d.c: 2-d convolution (cross-correlation, as in all of deep learning). First what is
// computed, in seven plain loops each; then how it is computed fast, as matrix products.
#include "cpu.h"
#include "naive.h"

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
// small product of one image fits the core's own cache, and threads need not meet until all images
// are done.

// Rows of `cols` are copied in pieces of this many floats, a size known to the compiler. The last
// piece of a row may run over into the next row, which is written after it, or into the slack at
// the end.
enum { PIECE = 16 };

static size_t round_up(size_t n) { return (n + PIECE - 1) / PIECE * PIECE; }

typedef struct Scratch { // of one thread, in floats
    size_t padded, cols; // one image with its padding; its matrix of columns
} Scratch;

static int padded_h(const Shape *s) { return s->H + 2 * s->pad_h; }
static int padded_w(const Shape *s) { return s->W + 2 * s->pad_w; }
static size_t out_pixels(const Shape *s) { return (size_t)s->out_h * (size_t)s->out_w; }

static Scratch scratch_for(const Shape *s) {
    return (Scratch){
        .padded = round_up((size_t)s->C * (size_t)padded_h(s) * (size_t)padded_w(s) + PIECE),
        .cols = round_up(w_size(s) * out_pixels(s) + PIECE),
    };
}

// A copy of the image with zeros around it (and slack behind it), so that im2col needs no tests for
// the border.
static void pad_image(const Shape *s, const float *X, float *padded) {
    int H = padded_h(s), W = padded_w(s);
    if (s->pad_h || s->pad_w)
        memset(padded, 0, sizeof(float) * (size_t)s->C * (size_t)H * (size_t)W);
    for (int c = 0; c < s->C; c++)
        for (int h = 0; h < s->H; h++)
            memcpy(padded + ((size_t)c * H + h + s->pad_h) * W + s->pad_w,
                   X + ((size_t)c * s->H + h) * s->W, sizeof(float) * (size_t)s->W);
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

SIMD_CLONES static void im2col(const Shape *s, const float *padded, float *cols) {
    int H = padded_h(s), W = padded_w(s), out_h = s->out_h, out_w = s->out_w;
    for (int c = 0; c < s->C; c++)
        for (int p = 0; p < s->kernel_h; p++)
            for (int q = 0; q < s->kernel_w; q++) {
                const float *from = padded + ((size_t)c * H + p) * W + q;
                for (int i = 0; i < out_h; i++, cols += out_w)
                    copy_row(cols, from + (size_t)i * s->stride_h * W, out_w, s->stride_w);
            }
}

// The reverse: each column gives its numbers back to the pixels that it was copied from.
SIMD_CLONES static void col2im(const Shape *s, const float *restrict cols, float *restrict padded) {
    int H = padded_h(s), W = padded_w(s), out_w = s->out_w, stride = s->stride_w;
    memset(padded, 0, sizeof(float) * (size_t)s->C * (size_t)H * (size_t)W);
    for (int c = 0; c < s->C; c++)
        for (int p = 0; p < s->kernel_h; p++)
            for (int q = 0; q < s->kernel_w; q++) {
                float *to = padded + ((size_t)c * H + p) * W + q;
                for (int i = 0; i < s->out_h; i++, cols += out_w) {
                    float *restrict row = to + (size_t)i * s->stride_h * W;
                    if (stride == 1)
                        for (int j = 0; j < out_w; j++) row[j] += cols[j];
                    else
                        for (int j = 0; j < out_w; j++) row[(size_t)j * stride] += cols[j];
                }
            }
}

// The columns of one image. A 1x1 convolution with stride 1 has them already: they are the image.
static const float *columns_of(const Shape *s, const float *X, float *scratch, Scratch size) {
    if (s->kernel_h * s->kernel_w * s->stride_h * s->stride_w == 1 && s->pad_h + s->pad_w == 0)
        return X;
    pad_image(s, X, scratch);
    im2col(s, scratch, scratch + size.padded);
    return scratch + size.padded;
}

SIMD_CLONES static void add_channel_bias(float *Y, const float *b, int channels, size_t pixels) {
    for (int m = 0; m < channels; m++, Y += pixels)
        for (size_t i = 0; i < pixels; i++) Y[i] += b[m];
}

CPU_KERNEL(conv2d_forward) {
    const Shape *s = &a->s;
    Scratch size = scratch_for(s);
    float *scratch =
        cpu_scratch(lane, sizeof(float) * (size.padded + size.cols) * (size_t)lane->threads);
    int K = (int)w_size(s), P = (int)out_pixels(s);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n++) {
        float *mine = scratch + (size_t)omp_get_thread_num() * (size.padded + size.cols);
        const float *cols = columns_of(s, a->X + (size_t)n * x_size(s), mine, size);
        float *Y = a->Y + (size_t)n * y_size(s);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s->M, P, K, 1.0f, a->W, K, cols, P,
                    0.0f, Y, P);
        if (a->b) add_channel_bias(Y, a->b, s->M, (size_t)P);
    }
}

// dX = beta dX + what lies inside the padding
static void unpad_image(const Shape *s, const float *padded, float *dX, float beta) {
    int H = padded_h(s), W = padded_w(s);
    for (int c = 0; c < s->C; c++)
        for (int h = 0; h < s->H; h++) {
            const float *from = padded + ((size_t)c * H + h + s->pad_h) * W + s->pad_w;
            float *to = dX + ((size_t)c * s->H + h) * s->W;
            for (int w = 0; w < s->W; w++) to[w] = beta != 0 ? to[w] + from[w] : from[w];
        }
}

CPU_KERNEL(conv2d_backward_input) {
    const Shape *s = &a->s;
    Scratch size = scratch_for(s);
    float *scratch =
        cpu_scratch(lane, sizeof(float) * (size.padded + size.cols) * (size_t)lane->threads);
    int K = (int)w_size(s), P = (int)out_pixels(s);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int n = 0; n < s->N; n++) {
        float *padded = scratch + (size_t)omp_get_thread_num() * (size.padded + size.cols);
        float *cols = padded + size.padded;
        const float *dY = a->dY + (size_t)n * y_size(s);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, K, P, s->M, 1.0f, a->W, K, dY, P, 0.0f,
                    cols, P);
        col2im(s, cols, padded);
        unpad_image(s, padded, a->dX + (size_t)n * x_size(s), a->beta);
    }
}

// ---- gradients of the parameters: a sum over images, as a tree (see cpu.h) -------------------

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

// db[m] += the sum of channel m of one image. `simd reduction` allows several partial sums side by
// side; one after the other, each addition would wait for the one before. In double, for positive
// and negative pixels add up to little more than the rounding errors of a float.
SIMD_CLONES static void add_channel_sums(float *db, const float *dY, int channels, size_t pixels) {
    for (int m = 0; m < channels; m++, dY += pixels) {
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (size_t i = 0; i < pixels; i++) total += dY[i];
        db[m] += (float)total;
    }
}

// dW and db (behind it) of the images first..last-1, into memory of its own.
static void params_of_group(const struct conv2d_backward_params_args *a, int first, int last,
                            float *dW, float *mine, Scratch size) {
    const Shape *s = &a->s;
    int K = (int)w_size(s), P = (int)out_pixels(s);
    float *db = dW + (size_t)s->M * (size_t)K;
    memset(dW, 0, sizeof(float) * (size_t)s->M * ((size_t)K + 1));
    for (int n = first; n < last; n++) {
        const float *cols = columns_of(s, a->X + (size_t)n * x_size(s), mine, size);
        const float *dY = a->dY + (size_t)n * y_size(s);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->M, K, P, 1.0f, dY, P, cols, P, 1.0f,
                    dW, K);
        add_channel_sums(db, dY, s->M, (size_t)P);
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

CPU_KERNEL(conv2d_backward_params) {
    const Shape *s = &a->s;
    Scratch size = scratch_for(s);
    SumTree tree = tree_of_images(s);
    size_t per_thread = size.padded + size.cols, weights = (size_t)s->M * w_size(s);
    size_t per_part = round_up(weights + (size_t)s->M), threads = (size_t)lane->threads;
    float *scratch =
        cpu_scratch(lane, sizeof(float) * (per_thread * threads + per_part * (size_t)tree.groups));
    float *sums = scratch + per_thread * threads;
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (int group = 0; group < tree.groups; group++) {
        int first = group * tree.group,
            last = first + tree.group < s->N ? first + tree.group : s->N;
        float *mine = scratch + (size_t)omp_get_thread_num() * per_thread;
        params_of_group(a, first, last, sums + (size_t)group * per_part, mine, size);
    }
    add_parts(sums, per_part, tree.groups, weights + (size_t)s->M, lane->threads);
    store(a->dW, sums, weights, a->beta);
    if (a->db) store(a->db, sums + weights, (size_t)s->M, a->beta);
}
