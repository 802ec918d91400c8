// sgd.cu: one step of minibatch stochastic gradient descent.
#include "grid.cuh"

static __global__ void sgd(struct sgd_args a) {
    GRID_LOOP(i, a.n) {
        a.param[i] -= a.lr / (float)a.batch_size * a.grad[i];
        a.grad[i] = 0;
    }
}

CUDA_KERNEL(sgd) { sgd<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
