// conv2d_plan.h: how conv2d.cu cuts a convolution into chunks. It is C, because kernels/cost.c
// counts launches with it, too.
#pragma once

#include <stdbool.h>
#include "kernels/kernels.h"

// Scratch memory for a chunk stays below this, unless a single image needs more. It is a fixed
// number and does not depend on free memory, because chunks decide the order of sums and so the
// bits of dW. (Tests compile with a small number, so that few images are several chunks.)
#ifndef CONV_WORKSPACE
#define CONV_WORKSPACE ((size_t)256 << 20)
#endif

// Images of a chunk, at least 1; the last chunk may have fewer.
static inline int conv2d_chunk_images(const struct conv2d_shape *s) {
    size_t taps = (size_t)s->C * s->kernel_h * s->kernel_w, plane = (size_t)s->out_h * s->out_w;
    size_t image_bytes = (taps + s->M) * plane * sizeof(float);
    size_t fit = image_bytes == 0 ? 1 : CONV_WORKSPACE / image_bytes;
    return fit < 1 ? 1 : fit < (size_t)s->N ? (int)fit : s->N > 0 ? s->N : 1;
}

// Whether a block has a thread for each weight, and room for the rows of both factors. For so few
// weights, conv2d.cu computes the gradient faster than cuBLAS.
enum { FEW_WEIGHTS = 256, FEW_ROWS = 64 };
static inline bool conv2d_has_few_weights(const struct conv2d_shape *s) {
    size_t taps = (size_t)s->C * s->kernel_h * s->kernel_w, weights = s->M * taps;
    return 0 < weights && weights <= FEW_WEIGHTS && s->M + taps <= FEW_ROWS;
}
