// conv2d_plan.h: how conv2d.cu cuts a convolution. In C, because kernels/cost.c counts by it, too.
#ifndef CONV2D_PLAN_H
#define CONV2D_PLAN_H

#include <stdbool.h>
#include "kernels/kernels.h"

// Scratch for a chunk stays below this, unless a single image needs more. A fixed number and not
// the free memory, because the cut decides the order of sums and so the bits of dW. (Tests compile
// with a small one: then few images are several chunks.)
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

// So few weights that a block has a thread for each, and room for the rows of both factors: their
// gradient is no job for cuBLAS.
enum { FEW_WEIGHTS = 256, FEW_ROWS = 64 };
static inline bool conv2d_has_few_weights(const struct conv2d_shape *s) {
    size_t taps = (size_t)s->C * s->kernel_h * s->kernel_w, weights = s->M * taps;
    return 0 < weights && weights <= FEW_WEIGHTS && s->M + taps <= FEW_ROWS;
}

#endif
