// avg_pool2d.c: the mean of each window. First what is computed, in plain loops. Then the case that
// networks nearly always use, 2x2 windows side by side, in a form that the compiler turns into
// vectors.
#include "cpu.h"

#include <string.h>

static size_t plane_in(const struct avg_pool2d_shape *s) { return (size_t)s->H * (size_t)s->W; }
static size_t plane_out(const struct avg_pool2d_shape *s) {
    return (size_t)s->out_h * (size_t)s->out_w;
}

static void forward_plane(const struct avg_pool2d_shape *s, const float *X, float *Y) {
    float scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    for (int i = 0; i < s->out_h; i++)
        for (int j = 0; j < s->out_w; j++) {
            float total = 0;
            for (int p = 0; p < s->kernel_h; p++)
                for (int q = 0; q < s->kernel_w; q++)
                    total += X[(i * s->stride_h + p) * s->W + j * s->stride_w + q];
            Y[i * s->out_w + j] = total * scale;
        }
}

// Each window divides its gradient equally among its pixels. Windows may overlap or leave out
// pixels.
static void backward_plane(const struct avg_pool2d_shape *s, const float *dY, float *dX,
                           float beta) {
    float scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    if (beta == 0) memset(dX, 0, plane_in(s) * sizeof *dX);
    for (int i = 0; i < s->out_h; i++)
        for (int j = 0; j < s->out_w; j++)
            for (int p = 0; p < s->kernel_h; p++)
                for (int q = 0; q < s->kernel_w; q++)
                    dX[(i * s->stride_h + p) * s->W + j * s->stride_w + q] +=
                        dY[i * s->out_w + j] * scale;
}

// The defect of the loops above: the size of the window is known only at run time, so the two inner
// loops cost more than the additions in them.
static bool is_2x2(const struct avg_pool2d_shape *s) {
    return s->kernel_h == 2 && s->kernel_w == 2 && s->stride_h == 2 && s->stride_w == 2;
}

static void forward_plane_2x2(const struct avg_pool2d_shape *s, const float *restrict X,
                              float *restrict Y) {
    int out_w = s->out_w;
    for (int i = 0; i < s->out_h; i++) {
        const float *top = X + 2 * i * s->W, *bottom = top + s->W;
        for (int j = 0; j < out_w; j++)
            Y[i * out_w + j] =
                (top[2 * j] + top[2 * j + 1] + bottom[2 * j] + bottom[2 * j + 1]) * 0.25f;
    }
}

// Overwrites dX: each pixel is in at most one window, and an odd last row or column in none.
static void backward_plane_2x2(const struct avg_pool2d_shape *s, const float *restrict dY,
                               float *restrict dX) {
    int out_w = s->out_w, W = s->W;
    for (int i = 0; i < s->out_h; i++) {
        float *restrict top = dX + 2 * i * W, *restrict bottom = top + W;
        for (int j = 0; j < out_w; j++)
            top[2 * j] = top[2 * j + 1] = bottom[2 * j] = bottom[2 * j + 1] =
                dY[i * out_w + j] * 0.25f;
        if (W % 2) top[W - 1] = bottom[W - 1] = 0;
    }
    if (s->H % 2) memset(dX + (s->H - 1) * W, 0, sizeof(float) * (size_t)W);
}

CPU_KERNEL(avg_pool2d_forward) {
    long planes = (long)a->s.N * a->s.C;
    bool fast = is_2x2(&a->s);
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (long i = 0; i < planes; i++) {
        const float *X = a->X + (size_t)i * plane_in(&a->s);
        float *Y = a->Y + (size_t)i * plane_out(&a->s);
        if (fast)
            forward_plane_2x2(&a->s, X, Y);
        else
            forward_plane(&a->s, X, Y);
    }
}

CPU_KERNEL(avg_pool2d_backward) {
    long planes = (long)a->s.N * a->s.C;
    bool fast = is_2x2(&a->s) && a->beta == 0;
#pragma omp parallel for num_threads(lane->threads) schedule(static)
    for (long i = 0; i < planes; i++) {
        const float *dY = a->dY + (size_t)i * plane_out(&a->s);
        float *dX = a->dX + (size_t)i * plane_in(&a->s);
        if (fast)
            backward_plane_2x2(&a->s, dY, dX);
        else
            backward_plane(&a->s, dY, dX, a->beta);
    }
}
