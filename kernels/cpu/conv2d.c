// conv2d.c: 2-d convolution (cross-correlation, as in all of deep learning). First what is
// computed, in seven plain loops each. Then the kernels, which choose the fastest method for a
// shape; fast/convolution.h lists the methods.
#include "cpu.h"
#include "fast/convolution.h"
#include "kernels/fail.h"

#include <stdlib.h>

typedef struct conv2d_shape Shape;

static size_t x_size(const Shape *s) { // one image
    return (size_t)s->C * (size_t)s->H * (size_t)s->W;
}

// ---- what ------------------------------------------------------------------------------------

// A convolution consists of products: output pixel (n,m,i,j) has weight (m,c,p,q) times input pixel
// (n,c,h,w). Forward and both backward passes are sums of the same products, seen from Y, X and W.

// Where these numbers are in memory.
static size_t y_at(const Shape *s, int n, int m, int i, int j) {
    return (((size_t)n * s->M + m) * s->out_h + i) * s->out_w + j;
}
static size_t w_at(const Shape *s, int m, int c, int p, int q) {
    return (((size_t)m * s->C + c) * s->kernel_h + p) * s->kernel_w + q;
}
static size_t x_at(const Shape *s, int n, int c, int h, int w) {
    return (((size_t)n * s->C + c) * s->H + h) * s->W + w;
}
// Otherwise the pixel is in the padding, and is zero.
static bool inside(const Shape *s, int h, int w) {
    return h >= 0 && h < s->H && w >= 0 && w < s->W;
}

// out = beta out + sum, for a beta of 0 or 1
static void finish(float *out, double sum, float beta) {
    *out = (float)(beta != 0 ? *out + sum : sum);
}

// The output pixel (n,m,i,j): all weights of channel m, each times the input pixel that it meets.
static double window_sum(const struct conv2d_forward_args *a, int n, int m, int i, int j) {
    const Shape *s = &a->s;
    double sum = 0;
    for (int c = 0; c < s->C; c++) {
        for (int p = 0; p < s->kernel_h; p++) {
            for (int q = 0; q < s->kernel_w; q++) {
                int h = i * s->stride_h + p - s->pad_h, w = j * s->stride_w + q - s->pad_w;
                if (inside(s, h, w))
                    sum += (double)a->W[w_at(s, m, c, p, q)] * a->X[x_at(s, n, c, h, w)];
            }
        }
    }
    return sum;
}

void conv2d_forward_naive(const struct conv2d_forward_args *a) {
    const Shape *s = &a->s;
    for (int n = 0; n < s->N; n++) {
        for (int m = 0; m < s->M; m++) {
            for (int i = 0; i < s->out_h; i++) {
                for (int j = 0; j < s->out_w; j++) {
                    double bias = a->b ? a->b[m] : 0;
                    a->Y[y_at(s, n, m, i, j)] = (float)(window_sum(a, n, m, i, j) + bias);
                }
            }
        }
    }
}

// dX of an image: each output pixel that a pixel (c,h,w) contributed to contributes to its
// gradient. These loops add to the sums of many pixels in turn, so the sums are kept in an array.
static void image_sums(const struct conv2d_backward_input_args *a, int n, double *dX) {
    const Shape *s = &a->s;
    for (int m = 0; m < s->M; m++) {
        for (int i = 0; i < s->out_h; i++) {
            for (int j = 0; j < s->out_w; j++) {
                double dY = a->dY[y_at(s, n, m, i, j)];
                for (int c = 0; c < s->C; c++) {
                    for (int p = 0; p < s->kernel_h; p++) {
                        for (int q = 0; q < s->kernel_w; q++) {
                            int h = i * s->stride_h + p - s->pad_h;
                            int w = j * s->stride_w + q - s->pad_w;
                            if (inside(s, h, w))
                                dX[x_at(s, 0, c, h, w)] += a->W[w_at(s, m, c, p, q)] * dY;
                        }
                    }
                }
            }
        }
    }
}

void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a) {
    const Shape *s = &a->s;
    size_t size = x_size(s);
    double *sums = malloc((size + 1) * sizeof *sums);
    if (!sums) kernels_fail("use smaller images", "out of memory: %zu sums of pixels", size);
    for (int n = 0; n < s->N; n++) {
        for (size_t x = 0; x < size; x++) sums[x] = 0;
        image_sums(a, n, sums);
        for (size_t x = 0; x < size; x++) finish(&a->dX[(size_t)n * size + x], sums[x], a->beta);
    }
    free(sums);
}

// The gradient of weight (m,c,p,q): all output pixels of channel m, each times the input pixel that
// met the weight there.
static double weight_sum(const struct conv2d_backward_params_args *a, int m, int c, int p, int q) {
    const Shape *s = &a->s;
    double sum = 0;
    for (int n = 0; n < s->N; n++) {
        for (int i = 0; i < s->out_h; i++) {
            for (int j = 0; j < s->out_w; j++) {
                int h = i * s->stride_h + p - s->pad_h, w = j * s->stride_w + q - s->pad_w;
                if (inside(s, h, w))
                    sum += (double)a->X[x_at(s, n, c, h, w)] * a->dY[y_at(s, n, m, i, j)];
            }
        }
    }
    return sum;
}

static double bias_sum(const struct conv2d_backward_params_args *a, int m) {
    const Shape *s = &a->s;
    double sum = 0;
    for (int n = 0; n < s->N; n++)
        for (int i = 0; i < s->out_h; i++)
            for (int j = 0; j < s->out_w; j++) sum += a->dY[y_at(s, n, m, i, j)];
    return sum;
}

void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a) {
    const Shape *s = &a->s;
    for (int m = 0; m < s->M; m++) {
        for (int c = 0; c < s->C; c++) {
            for (int p = 0; p < s->kernel_h; p++) {
                for (int q = 0; q < s->kernel_w; q++)
                    finish(&a->dW[w_at(s, m, c, p, q)], weight_sum(a, m, c, p, q), a->beta);
            }
        }
        if (a->db) finish(&a->db[m], bias_sum(a, m), a->beta);
    }
}

// ---- the kernels -----------------------------------------------------------------------------
//
// The defect of the loops: several tests for each useful multiplication, and no reuse of what is in
// the cache. fast/ has three methods without it, each for other shapes.

CPU_KERNEL(conv2d_forward) {
    if (winograd_suits(&a->s))
        winograd_forward(lane, a);
    else if (pooled_3x3_suits(&a->s, a->pooled))
        pooled_3x3_forward(lane, a);
    else
        windows_forward(lane, a);
}

CPU_KERNEL(conv2d_backward_input) {
    if (winograd_suits(&a->s))
        winograd_backward_input(lane, a);
    else
        windows_backward_input(lane, a);
}

CPU_KERNEL(conv2d_backward_params) {
    if (winograd_suits(&a->s)) {
        winograd_backward_weights(lane, a);
        if (a->db) windows_backward_bias(lane, a);
    } else if (pooled_3x3_suits(&a->s, a->pooled)) {
        pooled_3x3_backward_params(lane, a);
    } else {
        windows_backward_params(lane, a);
    }
}
