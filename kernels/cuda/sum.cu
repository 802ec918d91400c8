// sum.cu: the sum of all elements, and its gradient.
#include "grid.cuh"

// One block could add everything, but the rest of the GPU would be idle. Many blocks cannot add to
// one number without atomics. So there are two steps: each block adds its share into parts[block],
// then one block adds the parts. Both steps are this kernel. It adds in double, because positive
// and negative numbers may add up to less than the rounding errors of a float. Reading the numbers
// takes longer than adding them, even on a GPU with few double units.
template <class In, class Out>
static __global__ void sum_shares(const In *x, size_t n, Out *parts) {
    double sum = 0;
    GRID_LOOP(i, n) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = (Out)sum;
}

CUDA_KERNEL(sum_forward) {
    const unsigned blocks = blocks_for(a->n);
    double *parts = (double *)cuda_scratch(lane, blocks * sizeof *parts);
    sum_shares<float, double><<<blocks, THREADS, 0, lane->stream>>>(a->x, a->n, parts);
    sum_shares<double, float><<<1, THREADS, 0, lane->stream>>>(parts, blocks, a->out);
}

static __global__ void sum_backward(struct sum_backward_args a) {
    GRID_LOOP(i, a.n) a.dx[i] = accumulate(a.beta, &a.dx[i], a.dout[0]);
}

CUDA_KERNEL(sum_backward) { sum_backward<<<blocks_for(a->n), THREADS, 0, lane->stream>>>(*a); }
