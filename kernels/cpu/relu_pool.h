// relu_pool.h: ReLU and average pooling with 2x2 windows, as the end of a convolution: see `pooled`
// in kernels.h. Both work on the pixels of one image and channel, in rows that are `width` floats
// apart.
#ifndef KERNELS_CPU_RELU_POOL_H
#define KERNELS_CPU_RELU_POOL_H

#include "cpu.h"

// pixels (out_h,out_w) -> Y (out_h/2,out_w/2) and the bytes of `pooled`
void relu_and_pool(const struct conv2d_shape *s, const float *pixels, size_t width, float bias,
                   float *Y, unsigned char *pooled);

// The reverse: dY before pooling and ReLU, into all of `pixels`.
void unpool(const struct conv2d_shape *s, const float *dY, const unsigned char *pooled,
            float *pixels, size_t width);

#endif
