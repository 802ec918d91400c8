// gelu.cu: x P(x) and its gradient, where P is the normal distribution.
#include "grid.cuh"

static __device__ float probability_below(float x) {
    constexpr float root_of_half = 0.70710678f;
    return 0.5f * (1 + erff(x * root_of_half));
}

static __global__ void gelu_forward(struct gelu_forward_args a) {
    GRID_LOOP(i, a.n) a.Y[i] = a.X[i] * probability_below(a.X[i]);
}

CUDA_KERNEL(gelu_forward) { gelu_forward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void gelu_backward(struct gelu_backward_args a) {
    constexpr float per_root_of_2_pi = 0.39894228f;
    GRID_LOOP(i, a.n) {
        const float x = a.X[i], density = per_root_of_2_pi * expf(-0.5f * x * x);
        const float slope = probability_below(x) + x * density;
        a.dX[i] = accumulate(a.beta, &a.dX[i], a.dY[i] * slope);
    }
}

CUDA_KERNEL(gelu_backward) { gelu_backward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
