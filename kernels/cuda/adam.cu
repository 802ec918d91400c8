// adam.cu: one step of Adam.
#include "grid.cuh"

static __global__ void adam(struct adam_args a) {
    float per_row = 1 / (float)a.batch_size, root = 1 / a.root;
    GRID_LOOP(i, a.n) {
        float g = a.grad[i] * per_row;
        a.mean[i] = a.beta1 * a.mean[i] + (1 - a.beta1) * g;
        a.square[i] = a.beta2 * a.square[i] + (1 - a.beta2) * g * g;
        a.param[i] -= a.rate * a.mean[i] / (sqrtf(a.square[i]) * root + a.eps);
        a.grad[i] = 0;
    }
}

CUDA_KERNEL(adam) { adam<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
