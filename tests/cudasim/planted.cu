// planted.cu: work with one mistake each, for the rows of README.md's table. test_cudasim.c runs
// it.
#include "planted.h"

constexpr int THREADS = 64;

static float *new_floats(int n, bool written) {
    void *memory = nullptr;
    cudaMalloc(&memory, n * sizeof(float));
    if (written) cudaMemset(memory, 0, n * sizeof(float));
    cudaDeviceSynchronize();
    return (float *)memory;
}

// ---- the threads of a grid ---------------------------------------------------------------------

static __global__ void reverse(float *x) {
    __shared__ float tile[THREADS];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[THREADS - 1 - threadIdx.x]; // has that thread been here?
}
static void missing_barrier() { reverse<<<1, THREADS>>>(new_floats(THREADS, true)); }

static __global__ void add_one(float *x) { x[0] += 1; }
static void threads_at_one_place() { add_one<<<1, THREADS>>>(new_floats(1, true)); }

static __global__ void hand_on(float *x) { // block i reads what block i-1 has written
    x[blockIdx.x + 1] = x[blockIdx.x] + 1;
}
static void order_of_blocks() { hand_on<<<4, 1>>>(new_floats(5, true)); }

static __global__ void half_at_a_barrier() {
    if (threadIdx.x < THREADS / 2) __syncthreads();
}
static void divergent_barrier() { half_at_a_barrier<<<2, THREADS>>>(); }

// ---- copies into shared memory, and matrix products ----------------------------------------------

static __global__ void copy_two(const float *x, float *y) { // and wait for the first
    __shared__ float tile[2 * THREADS];
    for (int i = threadIdx.x; i < 2 * THREADS; i += THREADS) {
        copy_async<1>(tile + i, x + i, true);
        copies_commit();
    }
    copies_wait<1>();
    y[threadIdx.x] = tile[THREADS + threadIdx.x];
    copies_wait<0>();
}
static void wait_for_too_few_copies() {
    const float *x = new_floats(2 * THREADS, true);
    copy_two<<<1, THREADS>>>(x, new_floats(THREADS, false));
}

static __global__ void copy_16_bytes(const float *x, bool wait) {
    __shared__ float4 tile;
    copy_async<4>((float *)&tile, x, true);
    copies_commit();
    if (wait) copies_wait<0>();
}
static void misaligned_copy() { copy_16_bytes<<<1, 1>>>(new_floats(8, true) + 1, true); }
static void copy_without_a_wait() { copy_16_bytes<<<1, 1>>>(new_floats(4, true), false); }

static __global__ void product_of_some() {
    float D[4] = {};
    const unsigned A[4] = {}, B[2] = {};
    if (threadIdx.x < 40) mma_tf32(D, A, B);
}
static void divergent_product() { product_of_some<<<1, THREADS>>>(); }

// ---- memory ----------------------------------------------------------------------------------

static __global__ void write_at(float *x, int i) { x[i] = 1; }
static __global__ void read_at(const float *x, int i, float *y) { *y = x[i]; }

static void read_what_nothing_wrote() {
    float *x = new_floats(3, false);
    write_at<<<1, 1>>>(x, 1);
    read_at<<<1, 1>>>(x, 2, new_floats(1, false));
}
static void copy_of_what_nothing_wrote() {
    static float x[10];
    cudaMemcpy(x, new_floats(10, false), sizeof x, cudaMemcpyDeviceToHost);
}
static void write_behind_the_end() { write_at<<<1, 1>>>(new_floats(10, true), 10); }
static void read_freed_memory() {
    float *x = new_floats(10, true), *y = new_floats(1, false);
    cudaFree(x);
    read_at<<<1, 1>>>(x, 3, y);
}
static void read_memory_of_the_host() {
    float x[2] = {1, 2};
    read_at<<<1, 1>>>(x, 1, new_floats(1, false));
}
static void read_memory_of_a_peer() {
    float *x = new_floats(10, true);
    cudaSetDevice(1);
    read_at<<<1, 1>>>(x, 3, new_floats(1, false));
}

static __global__ void write_shared(int i, float *y) {
    __shared__ float x[8];
    x[threadIdx.x] = 0;
    x[i] = 1;
    y[threadIdx.x] = x[threadIdx.x];
}
static void shared_write_outside() { write_shared<<<1, 8>>>(8, new_floats(8, false)); }

static __global__ void dynamic_index(int i) {
    extern __shared__ float x[];
    x[i] = 1;
}
static void dynamic_shared_outside() { dynamic_index<<<1, 1, 40>>>(10); }

static __global__ void read_float4(const float *x, float *y) { *y = ((const float4 *)x)->w; }
static void misaligned() { read_float4<<<1, 1>>>(new_floats(10, true) + 1, new_floats(1, false)); }

// ---- streams, and the host ---------------------------------------------------------------------

static void two_streams_without_an_event() {
    float *x = new_floats(1, true);
    cudaStream_t other;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    write_at<<<1, 1>>>(x, 0);
    write_at<<<1, 1, 0, other>>>(x, 0);
}
static void host_reads_a_gpu() {
    volatile float x = new_floats(10, true)[3];
    (void)x;
}
static void host_reads_too_early() {
    void *pinned = nullptr;
    cudaHostAlloc(&pinned, sizeof(float), cudaHostAllocPortable);
    cudaMemcpyAsync(pinned, new_floats(1, true), sizeof(float), cudaMemcpyDeviceToHost, nullptr);
    volatile float x = *(float *)pinned;
    (void)x;
}

const Planted planted[] = {
#define PLANT(name, words)                                                                         \
    { #name, name, words }
    PLANT(missing_barrier, "of shared memory that nothing has written"),
    PLANT(threads_at_one_place, "of its block has written"),
    PLANT(order_of_blocks, "of another block has"),
    PLANT(divergent_barrier, "which only 32 of 64 threads reach"),
    PLANT(wait_for_too_few_copies, "of shared memory that a copy has yet to write"),
    PLANT(misaligned_copy, "and not at multiples of 16"),
    PLANT(copy_without_a_wait, "ends before its copies into shared memory"),
    PLANT(divergent_product, "lanes 0xffffffff of its warp, and not all come"),
    PLANT(read_what_nothing_wrote, "of device memory that nothing has written"),
    PLANT(copy_of_what_nothing_wrote, "of device memory that nothing has written"),
    PLANT(write_behind_the_end, "0 bytes behind the 40 bytes of an allocation on GPU 0"),
    PLANT(read_freed_memory, "in freed memory of GPU 0"),
    PLANT(read_memory_of_the_host, "in memory of the host"),
    PLANT(read_memory_of_a_peer, "of GPU 0 from GPU 1"),
    PLANT(shared_write_outside, "index 8 out of bounds for type 'float [8]'"),
    PLANT(dynamic_shared_outside, "behind the end of its shared memory"),
    PLANT(misaligned, "misaligned address"),
    PLANT(two_streams_without_an_event, "what write_at in another stream has written"),
    PLANT(host_reads_a_gpu, "use-after-poison"),
    PLANT(host_reads_too_early, "use-after-poison"),
};
const int num_planted = sizeof planted / sizeof planted[0];

cudaError_t planted_dynamic(size_t bytes) {
    dynamic_index<<<1, 1, bytes>>>((int)(bytes / sizeof(float)) - 1);
    return cudaGetLastError();
}
cudaError_t planted_dynamic_limit(int bytes) {
    return cudaFuncSetAttribute(dynamic_index, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
