// conv2d_patch.h: convolution on tensor cores, for GPUs from sm_80 on and kernels of 3x3 or 1x1
// pixels. conv2d.cu calls these functions where patches_fit(), and does the rest itself.
#pragma once

#include "cuda.h"

// Whether the functions below can do convolutions of this shape. `pooled` as in kernels.h.
bool patches_fit(const CudaLane *lane, const struct conv2d_shape *s, const void *pooled);
bool patch_weights_fit(const CudaLane *lane, const struct conv2d_shape *s);

// They do what the kernels of these names do, in kernels.h. Factors are rounded to TF32; if the
// lane has no `tf32`, each product is three, with an error near float32's.
void conv2d_forward_by_patches(CudaLane *lane, const struct conv2d_forward_args *a);
void conv2d_backward_input_by_patches(CudaLane *lane, const struct conv2d_backward_input_args *a);
void conv2d_weights_by_patches(CudaLane *lane, const struct conv2d_backward_params_args *a);
