// phases.h: the pixels of an image in the order in which a convolution with strides reads them.
#ifndef KERNELS_CPU_PHASES_H
#define KERNELS_CPU_PHASES_H

#include "cpu.h"

// How the padded pixels of an image are sorted: phase (a,b) has those of rows a, a + stride_h, ...
// and columns b, b + stride_w, .... Each phase is h x w, and a channel is rows x cols of them.
typedef struct Phases {
    int rows, cols, h, w;
    size_t channel; // floats
} Phases;
Phases phases_of(const struct conv2d_shape *s);

// Sorts some channels of an image. X (channels,H,W) -> to (channels,rows,cols,h,w)
void fill_phases(const struct conv2d_shape *s, Phases f, const float *X, int channels, float *to);

// Where the pixels begin there that a weight (c,p,q) meets, one for each output pixel, with rows of
// f.w: for all weights of some channels.
void find_offsets(const struct conv2d_shape *s, Phases f, int channels, int *offset);

#endif
