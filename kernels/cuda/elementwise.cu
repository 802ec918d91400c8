// elementwise.cu: fill, scale and additions, one thread per element.
#include "grid.cuh"

static __global__ void fill(struct fill_args a) { GRID_LOOP(i, a.n) a.x[i] = a.value; }

CUDA_KERNEL(fill) { fill<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void scale(struct scale_args a) { GRID_LOOP(i, a.n) a.x[i] *= a.factor; }

CUDA_KERNEL(scale) { scale<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void add(struct add_args a) { GRID_LOOP(i, a.n) a.y[i] += a.x[i]; }

CUDA_KERNEL(add) { add<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void add_forward(struct add_forward_args a) {
    GRID_LOOP(i, a.n) a.Y[i] = a.A[i] + a.B[i];
}

CUDA_KERNEL(add_forward) { add_forward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }

static __global__ void add_backward(struct add_backward_args a) {
    GRID_LOOP(i, a.n) a.dX[i] = accumulate(a.beta, &a.dX[i], a.dY[i]);
}

CUDA_KERNEL(add_backward) { add_backward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
