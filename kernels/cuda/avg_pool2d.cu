// avg_pool2d.cu: the mean of each window, and its gradient.
#include "grid.cuh"

// One thread per output pixel.
static __global__ void avg_pool2d_forward(struct avg_pool2d_forward_args a, unsigned n,
                                          struct Divisor out_h, struct Divisor out_w) {
    const struct avg_pool2d_shape s = a.s;
    INDEX_LOOP(i, n) {
        const auto [row, ow] = split(i, out_w);
        const auto [image, oh] = split(row, out_h); // one of the N*C
        const float *window = a.X + ((size_t)image * s.H + oh * s.stride_h) * s.W + ow * s.stride_w;
        float sum = 0;
        for (int h = 0; h < s.kernel_h; h++)
            for (int w = 0; w < s.kernel_w; w++) sum += window[h * (size_t)s.W + w];
        a.Y[i] = sum / (s.kernel_h * s.kernel_w);
    }
}

CUDA_KERNEL(avg_pool2d_forward) {
    const unsigned n = index_count((size_t)a->s.N * a->s.C * a->s.out_h * a->s.out_w);
    avg_pool2d_forward<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n, divisor(a->s.out_h),
                                                                    divisor(a->s.out_w));
}

// One thread per input pixel. Windows may overlap. If each output added to its pixels, two threads
// could add to the same pixel, in an order that changes from run to run. So each pixel adds up the
// gradients of its windows.
struct PoolDivisors {
    struct Divisor H, W, stride_h, stride_w;
};

static __global__ void avg_pool2d_backward(struct avg_pool2d_backward_args a, unsigned n,
                                           struct PoolDivisors by) {
    const struct avg_pool2d_shape s = a.s;
    INDEX_LOOP(i, n) {
        const auto [row, w] = split(i, by.W);
        const auto [image, h] = split(row, by.H);
        const float *dY = a.dY + (size_t)image * s.out_h * s.out_w;
        const struct Windows rows = windows_over(h, s.kernel_h, by.stride_h, s.out_h);
        const struct Windows cols = windows_over(w, s.kernel_w, by.stride_w, s.out_w);
        float sum = 0;
        for (int oh = rows.first; oh < rows.end; oh++)
            for (int ow = cols.first; ow < cols.end; ow++) sum += dY[oh * (size_t)s.out_w + ow];
        a.dX[i] = accumulate(a.beta, &a.dX[i], sum / (s.kernel_h * s.kernel_w));
    }
}

CUDA_KERNEL(avg_pool2d_backward) {
    const struct avg_pool2d_shape s = a->s;
    const unsigned n = index_count((size_t)s.N * s.C * s.H * s.W);
    const struct PoolDivisors by = {divisor(s.H), divisor(s.W), divisor(s.stride_h),
                                    divisor(s.stride_w)};
    avg_pool2d_backward<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n, by);
}
