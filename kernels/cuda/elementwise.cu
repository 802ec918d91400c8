// elementwise.cu: fill and add, one thread per element.
#include "grid.cuh"

static __global__ void fill(struct fill_args a) {
    GRID_LOOP(i, a.n) a.x[i] = a.value;
}

CUDA_KERNEL(fill) {
    fill<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a);
}

static __global__ void add(struct add_args a) {
    GRID_LOOP(i, a.n) a.y[i] += a.x[i];
}

CUDA_KERNEL(add) {
    add<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a);
}
