// grid.cuh: how kernels spread work over a GPU's threads, and how threads add up their results.
// Launch blocks_for(n) blocks of THREADS threads, and in the kernel loop with GRID_LOOP or
// INDEX_LOOP. Sum with block_sum(). Do not add with atomics.
//
// A GPU runs a grid of blocks of THREADS threads. Threads of a block share fast memory and can wait
// for each other; the 32 threads of a warp can also read each other's registers. Blocks run in any
// order, so results must not depend on the order: each output is written by one thread. Atomics
// would add in an order that changes from run to run, and so would the last bits of a sum.
#pragma once

#include "cuda.h"

// (Tests compile with few blocks, so that even in small tests threads take several elements each.)
#ifndef GRID_BLOCKS
#define GRID_BLOCKS 4096
#endif
constexpr int WARP = 32, THREADS = 256;
constexpr size_t MAX_BLOCKS = GRID_BLOCKS;

// The number of blocks for n things with `per_block` in each. It depends on n alone, never on the
// GPU, because it decides the order of sums. At least one, because CUDA refuses to launch none. At
// most MAX_BLOCKS, so each block loops over its share, the grid-stride loop.
static inline unsigned blocks_for(size_t n, size_t per_block = THREADS) {
    const size_t blocks = (n + per_block - 1) / per_block;
    return (unsigned)(blocks == 0 ? 1 : blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

// Thread t of T takes i = t, t + T, t + 2T, .... At any moment, neighbouring threads work on
// neighbouring elements, which the memory reads together. 64-bit, because n may exceed 2^32.
#define GRID_LOOP(i, n)                                                                            \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (n);                        \
         i += gridDim.x * (size_t)blockDim.x)

// ---- indices ---------------------------------------------------------------------------------

// To which image, row and pixel does number i belong? This takes divisions, and a GPU has no
// instruction that divides: i / n takes some 20 instructions in 32 bits and 100 in 64 bits, more
// than everything else that is done with the number. But the host can compute `factor` = 2^shift /
// n, rounded up, once. Then i / n is i * factor / 2^shift: a multiplication and a shift, exact for
// i below 2^31 (Granlund & Montgomery, "Division by invariant integers using multiplication",
// 1994).
struct Divisor {
    unsigned n, factor;
    int shift;
};

static inline struct Divisor divisor(size_t n) {
    struct Divisor d = {n == 0 ? 1 : (unsigned)n, 0, 31}; // if n is 0, there is nothing to divide
    while (1ull << (d.shift - 31) < d.n) d.shift++;
    d.factor = (unsigned)(((1ull << d.shift) + d.n - 1) / d.n);
    return d;
}

struct Split {
    unsigned quotient, rest;
};

static inline __device__ struct Split split(unsigned i, struct Divisor d) {
    const unsigned quotient = (unsigned)(i * (unsigned long long)d.factor >> d.shift);
    return {quotient, i - quotient * d.n};
}

// Kernels that split their indices count in 32 bits.
static inline unsigned index_count(size_t n) {
    if (n >> 31 != 0)
        kernels_fail("use a smaller --batch-size",
                     "a tensor of %zu numbers: this kernel counts to 2^31 - 1", n);
    return (unsigned)n;
}

// GRID_LOOP for such kernels. (n and the step are below 2^31, so their sum does not overflow.)
#define INDEX_LOOP(i, n)                                                                           \
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)

// ---- sums ------------------------------------------------------------------------------------

// beta old + value. If beta is 0, *old is not even read, since it may be NaN.
static inline __device__ float accumulate(float beta, const float *old, float value) {
    return beta == 0 ? value : beta * *old + value;
}

// The sum and the maximum over the 32 threads of a warp; each thread gets the result. Each round
// adds the value of the thread whose number differs in one bit. As a + b = b + a, all threads end
// with the same bits.
template <class Number> static inline __device__ Number warp_sum(Number value) {
    for (int bit = WARP / 2; bit > 0; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}

static inline __device__ float warp_max(float value) {
    for (int bit = WARP / 2; bit > 0; bit /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, bit));
    return value;
}

// The sum of `value` over the THREADS threads of the block; each thread gets the result. It is the
// sum of the warps' sums, in order: always the same tree, so always the same bits. All threads of
// the block must call it.
template <class Number> static inline __device__ Number block_sum(Number value) {
    __shared__ Number parts[THREADS / WARP];
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = value;
    __syncthreads();
    Number sum = parts[0];
    for (int warp = 1; warp < THREADS / WARP; warp++) sum += parts[warp];
    __syncthreads(); // all have read them before the next call overwrites them
    return sum;
}

// ---- sums over a channel of images (N,C,S), S pixels in each ---------------------------------

// One block for each channel would leave most of the GPU idle: ResNet-18 begins with 64 channels,
// and an H100 has 132 multiprocessors, each with room for 8 of our blocks. So a channel is cut into
// parts, with a block for each, and a second, small kernel adds up the parts. The number of parts
// depends on the shape alone, because it decides the order of sums.
constexpr unsigned ENOUGH_BLOCKS = 1024, MAX_PARTS = 64;
// A part has at least this many numbers, or adding up the parts would take longer than it saves.
// (Tests compile with fewer, so that small channels have several parts.)
#ifndef PART_NUMBERS
#define PART_NUMBERS (8 * THREADS)
#endif

struct Channels {
    unsigned C, n; // n = N S numbers in a channel; number j is pixel j % S of image j / S
    struct Divisor S;
    unsigned parts, part; // part p has the `part` numbers from p * part on; the last may have none
};

static inline struct Channels cut_channels(int N, int C, size_t S) {
    const unsigned n = index_count(N * S);
    const unsigned wanted = ENOUGH_BLOCKS / (C > 0 ? C : 1), large = n / PART_NUMBERS;
    unsigned parts = wanted < large ? wanted : large;
    parts = parts < 1 ? 1 : parts < MAX_PARTS ? parts : MAX_PARTS;
    const unsigned part = (n / (parts * THREADS) + 1) * THREADS; // a multiple of THREADS
    return {(unsigned)C, n, divisor(S), n / part + 1, part};
}

// C channels together have at most this many parts.
static inline size_t most_parts(int C) { return C < (int)ENOUGH_BLOCKS ? ENOUGH_BLOCKS : C; }

// Blocks for a kernel with CHANNEL_LOOP: block (x,y) takes part y of channel x.
static inline dim3 blocks_for(struct Channels ch) { return {blocks_for(ch.C, 1), ch.parts}; }

static inline __device__ unsigned part_end(struct Channels ch) {
    const unsigned end = (blockIdx.y + 1) * ch.part;
    return end < ch.n ? end : ch.n;
}

static inline __device__ size_t number_at(struct Channels ch, unsigned c, unsigned j) {
    const auto [image, pixel] = split(j, ch.S);
    return ((size_t)image * ch.C + c) * ch.S.n + pixel;
}

// Runs through this thread's numbers of channel c; i is their index.
#define CHANNEL_LOOP(i, ch, c)                                                                     \
    for (unsigned j_ = blockIdx.y * (ch).part + threadIdx.x, end_ = part_end(ch); j_ < end_;       \
         j_ += THREADS)                                                                            \
        for (size_t i = number_at(ch, c, j_), once_ = 1; once_; once_ = 0)

// ---- windows ---------------------------------------------------------------------------------

// The windows that contain pixel x of a (padded) row. Window o covers [o stride, o stride +
// kernel). For the gradients of convolution and pooling, where each pixel adds up what its windows
// give.
struct Windows {
    int first, end; // first <= o < end
};

static inline __device__ struct Windows windows_over(int x, int kernel, struct Divisor stride,
                                                     int out) {
    const int before = x - kernel; // a window that begins here ends before x
    const int last = split(x, stride).quotient;
    return {before < 0 ? 0 : (int)split(before, stride).quotient + 1, last < out ? last + 1 : out};
}
