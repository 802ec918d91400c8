// naive.h: what the kernels with a fast version compute, in plain loops. To be read first; the
// tests compare the fast versions with these. The sums of gemm and conv2d are in double.
#ifndef KERNELS_NAIVE_H
#define KERNELS_NAIVE_H

#include "../kernels.h"

void gemm_naive(const struct gemm_args *a);
void conv2d_forward_naive(const struct conv2d_forward_args *a);
void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a);
void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a);
void avg_pool2d_forward_naive(const struct avg_pool2d_forward_args *a);
void avg_pool2d_backward_naive(const struct avg_pool2d_backward_args *a);

#endif
