// convolution.h: the fast methods of a convolution, and what they share. The kernels in conv2d.c
// choose one: ask X_suits() before you call a function of Winograd's method or of pooled_3x3;
// windows.c takes any shape. All take the arguments of the kernels and give their results.
#pragma once

#include "kernels/cpu/cpu.h"
#include "vector.h"

// ---- as matrix products, any shape: windows.c ---------------------------------------------------

void windows_forward(CpuLane *lane, const struct conv2d_forward_args *a);
void windows_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a);
void windows_backward_params(CpuLane *lane, const struct conv2d_backward_params_args *a);
// db alone, which must not be NULL.
void windows_backward_bias(CpuLane *lane, const struct conv2d_backward_params_args *a);

// ---- with fewer multiplications: winograd.c -----------------------------------------------------
//
// For kernels of 3x3 or 5x5 with stride 1. The price is accuracy, since numbers of different size
// are added and subtracted. The largest error is about 2e-5 of the usual result for 3x3 and 5e-5
// for 5x5, where that of plain sums is 2e-6 (tests/test_kernels.c). And an infinity among the
// pixels becomes NaN all over its tile.

// Whether the method can be used and is worth it: with 16 channels or more, in and out; for 5x5
// with 4 to 128.
bool winograd_suits(const struct conv2d_shape *s);

void winograd_forward(CpuLane *lane, const struct conv2d_forward_args *a);
void winograd_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a);
// dW alone.
void winograd_backward_weights(CpuLane *lane, const struct conv2d_backward_params_args *a);

// ---- LeNet's first layer: pooled_3x3.c ----------------------------------------------------------
//
// One input channel, kernels of 3x3, stride 1, and ReLU and pooling at the end. Everything that
// happens to a number between the image and the pooled pixel happens in registers.

bool pooled_3x3_suits(const struct conv2d_shape *s, const unsigned char *pooled);
void pooled_3x3_forward(CpuLane *lane, const struct conv2d_forward_args *a);
void pooled_3x3_backward_params(CpuLane *lane, const struct conv2d_backward_params_args *a);

// ---- ReLU and 2x2 average pooling at the end: relu_pool.c ---------------------------------------
//
// For `pooled` in kernels.h. Both work on the pixels of one channel of one image, in rows that are
// `width` floats apart.

// pixels (out_h,out_w) -> Y (out_h/2,out_w/2) and the bytes of `pooled`
void relu_and_pool(const struct conv2d_shape *s, const float *pixels, size_t width, float bias,
                   float *Y, unsigned char *pooled);

// The reverse: the gradient before pooling and ReLU, written to all of `pixels`.
void unpool(const struct conv2d_shape *s, const float *dY, const unsigned char *pooled,
            float *pixels, size_t width);

// ---- pixels in the order in which strides read them: phases.c -----------------------------------

// Phase (a,b) holds the padded image's pixels of rows a, a + stride_h, a + 2 stride_h, ... and
// columns b, b + stride_w, .... Each phase has h x w pixels, and a channel has rows x cols phases.
typedef struct Phases {
    int rows, cols, h, w;
    size_t channel; // floats
} Phases;
Phases phases_of(const struct conv2d_shape *s);

// Sorts some channels of an image. X (channels,H,W) -> to (channels,rows,cols,h,w)
void fill_phases(const struct conv2d_shape *s, Phases f, const float *X, int channels, float *to);

// For each weight (c,p,q) of some channels: the offset in `to` of the pixel that the weight meets
// for output pixel (0,0). The pixel for output pixel (i,j) is i * f.w + j floats behind it.
void find_offsets(const struct conv2d_shape *s, Phases f, int channels, int *offset);
