// naive.h: what the kernels with a fast version compute, in plain loops. To be read first; the
// tests compare the fast versions with these. Their sums are in double, but for avg_pool2d's.
#ifndef KERNELS_NAIVE_H
#define KERNELS_NAIVE_H

#include "kernels/kernels.h"

void gemm_naive(const struct gemm_args *a);
void conv2d_forward_naive(const struct conv2d_forward_args *a);
void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a);
void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a);
void avg_pool2d_forward_naive(const struct avg_pool2d_forward_args *a);
void avg_pool2d_backward_naive(const struct avg_pool2d_backward_args *a);
void batch_norm_stats_naive(const struct batch_norm_stats_args *a);
void batch_norm_forward_naive(const struct batch_norm_forward_args *a);
void batch_norm_backward_sums_naive(const struct batch_norm_backward_sums_args *a);
void batch_norm_backward_input_naive(const struct batch_norm_backward_input_args *a);

#endif
