// winograd.h: convolutions with kernels of 3x3 or 5x5 and stride 1, the most common ones, by the
// method of Winograd (1980): Lavin & Gray, "Fast algorithms for convolutional neural networks",
// 2016; F(4x4,3x3) and F(4x4,5x5) in their notation.
//
// The defect that it mends: as a matrix product, a convolution multiplies each pixel with 9 or 25
// weights for each output channel, and product.c already does that at nearly the speed of the
// machine. Fewer multiplications is all that is left: 36 instead of 144, or 64 instead of 400. The
// price is accuracy, since the transforms add and subtract numbers of different size: the largest
// error is about 2e-5 of the usual result for 3x3 and 5e-5 for 5x5, that of plain sums 2e-6 (see
// test_kernels.c). And an infinity among the pixels becomes NaN all over its tile.
#ifndef KERNELS_CPU_WINOGRAD_H
#define KERNELS_CPU_WINOGRAD_H

#include "cpu.h"

// Whether it can be used, and is worth it: from 16 channels on, in and out; for 5x5 from 4 to 128.
bool winograd_suits(const struct conv2d_shape *s);

// As the kernels of these names; backward_weights writes dW alone.
void winograd_forward(CpuLane *lane, const struct conv2d_forward_args *a);
void winograd_backward_input(CpuLane *lane, const struct conv2d_backward_input_args *a);
void winograd_backward_weights(CpuLane *lane, const struct conv2d_backward_params_args *a);

#endif
