// relu_pool.h: ReLU and average pooling with 2x2 windows, as the end of a convolution: see `pooled`
// in kernels.h. Both work on the pixels of one image and channel, which lie in an order of their
// own: the even rows, then the odd rows. So what is pooled together lies in two long rows, and not
// in many short ones, and the loops are vectors.
#ifndef KERNELS_CPU_RELU_POOL_H
#define KERNELS_CPU_RELU_POOL_H

#include "cpu.h"

// pixels (out_h,out_w) -> Y (out_h/2,out_w/2) and the bytes of `pooled`. Overwrites `pixels`.
void relu_and_pool(const struct conv2d_shape *s, float *pixels, float bias, float *Y,
                   unsigned char *pooled);

// The reverse: dY before pooling and ReLU, into all of `pixels`.
void unpool(const struct conv2d_shape *s, const float *dY, const unsigned char *pooled,
            float *pixels);

#endif
