// relu.cu: max(x, 0) and its gradient.
#include "grid.cuh"

// fmaxf(x, 0) would turn NaN into 0. A comparison with NaN is false, so here NaN stays.
static __global__ void relu_forward(struct relu_forward_args a) {
    GRID_LOOP(i, a.n) a.Y[i] = a.X[i] < 0 ? 0 : a.X[i];
}

CUDA_KERNEL(relu_forward) { relu_forward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void relu_backward(struct relu_backward_args a) {
    GRID_LOOP(i, a.n) a.dX[i] = accumulate(a.beta, &a.dX[i], a.Y[i] > 0 ? a.dY[i] : 0);
}

CUDA_KERNEL(relu_backward) { relu_backward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
