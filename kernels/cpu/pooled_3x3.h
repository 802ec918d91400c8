// pooled_3x3.h: a convolution of one input channel with kernels of 3x3, stride 1, that ends in ReLU
// and pooling: LeNet's first layer. All that happens to a number between the image and the pooled
// pixel happens in registers.
//
// As a matrix product, such a layer has sums of nine products: written to memory, read to add the
// bias, to ask for its sign and to pool it, each number costs more than its sum. So a vector here
// is pooled pixels side by side. The four windows of such a pixel see 4x4 pixels of the image, its
// `taps`; those are sorted so that they can be read as vectors, once for all output channels, and
// each tap is used in up to four of the windows.
#ifndef KERNELS_CPU_POOLED_3X3_H
#define KERNELS_CPU_POOLED_3X3_H

#include "cpu.h"

bool pooled_3x3_suits(const struct conv2d_shape *s, const unsigned char *pooled);
void pooled_3x3_forward(CpuLane *lane, const struct conv2d_forward_args *a);
void pooled_3x3_backward_params(CpuLane *lane, const struct conv2d_backward_params_args *a);

#endif
