// grid.cuh: how kernels spread work over a GPU's threads, and how threads add up what they have.
//
// A GPU runs a grid of blocks of THREADS threads. Threads of a block share fast memory and can wait
// for each other; the 32 threads of a warp can also read each other's registers. Blocks run in any
// order, so a kernel must not let the order show: each output is written by one thread, and nothing
// is added with atomics (whose order, and so the last bits of a sum, changes each run).
#ifndef KERNELS_CUDA_GRID_CUH
#define KERNELS_CUDA_GRID_CUH

#include "cuda.h"

// (Tests compile with few blocks: then threads of small tests take several elements each, too.)
#ifndef GRID_BLOCKS
#define GRID_BLOCKS 4096
#endif
constexpr int WARP = 32, THREADS = 256;
constexpr size_t MAX_BLOCKS = GRID_BLOCKS;

// The number of blocks for n things, so many per block. Depends on the shape alone, never on the
// GPU, because it decides the order of sums. At least one, since CUDA refuses to launch none: for
// zero things a block starts and ends. At most MAX_BLOCKS: each loops over its share, the
// grid-stride loop.
static inline unsigned blocks_for(size_t n, size_t per_block = THREADS) {
    const size_t blocks = (n + per_block - 1) / per_block;
    return (unsigned)(blocks == 0 ? 1 : blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

// Thread t of T takes i = t, t + T, t + 2T, ...: at any moment neighbours work on neighbouring
// elements, which the memory serves together. 64-bit, because n may be more than 2^32.
#define GRID_LOOP(i, n)                                                                            \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (n);                        \
         i += gridDim.x * (size_t)blockDim.x)

// beta old + value; with beta = 0 what *old holds is not even read, since it may be NaN.
static inline __device__ float accumulate(float beta, const float *old, float value) {
    return beta == 0 ? value : beta * *old + value;
}

// The sum of `value` over the THREADS threads of the block, for all of them. Halves are added to
// halves: 128 + 128, 64 + 64, ..., always the same tree, so always the same bits. All must call it.
template <class Number> static inline __device__ Number block_sum(Number value) {
    __shared__ Number parts[THREADS];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    const Number sum = parts[0];
    __syncthreads(); // all have read it before the next call overwrites it
    return sum;
}

// The sum and the largest over the 32 threads of a warp, for all of them. Each round adds the value
// of the thread whose number differs in one bit; a + b = b + a, so all end with the same bits.
static inline __device__ float warp_sum(float value) {
    for (int bit = WARP / 2; bit > 0; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}

static inline __device__ float warp_max(float value) {
    for (int bit = WARP / 2; bit > 0; bit /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, bit));
    return value;
}

// Which windows hold pixel x of a (padded) row: window o covers [o stride, o stride + kernel). For
// the gradients of convolution and pooling, where each pixel gathers from its windows.
struct Windows {
    int first, end; // first <= o < end
};

static inline __device__ struct Windows windows_over(int x, int kernel, int stride, int out) {
    const int before = x - kernel; // a window that begins here ends before x
    const int last = x / stride;
    return {before < 0 ? 0 : before / stride + 1, last < out ? last + 1 : out};
}

#endif
