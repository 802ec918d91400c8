// planted.cu: kernels with one mistake each, and right ones that use what the project's kernels do
// not (yet). test_cudasim.c runs them.
#include "planted.h"

constexpr int THREADS = 64;

static float *new_floats(int n, bool written) {
    void *memory = nullptr;
    cudaMalloc(&memory, n * sizeof(float));
    if (written) cudaMemset(memory, 0, n * sizeof(float));
    cudaDeviceSynchronize();
    return (float *)memory;
}

// ---- barriers --------------------------------------------------------------------------------

static __global__ void reverse(float *x, bool barrier, bool end_barrier) {
    __shared__ float tile[THREADS];
    tile[threadIdx.x] = 0;
    __syncthreads();
    for (int round = 0; round < 2; round++) {
        tile[threadIdx.x] = x[threadIdx.x];
        if (barrier) __syncthreads();
        x[threadIdx.x] = tile[THREADS - 1 - threadIdx.x];
        if (end_barrier) __syncthreads();
    }
}
static void missing_barrier() { reverse<<<1, THREADS>>>(new_floats(THREADS, true), false, true); }
static void missing_second_barrier() {
    reverse<<<1, THREADS>>>(new_floats(THREADS, true), true, false);
}

static __global__ void half_at_a_barrier() {
    if (threadIdx.x < THREADS / 2) __syncthreads();
}
static void divergent_barrier() { half_at_a_barrier<<<2, THREADS>>>(); }

static __global__ void two_barriers() {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncthreads();
}
static void different_barriers() { two_barriers<<<1, THREADS>>>(); }

static __global__ void shuffle_of_some(float *x) {
    if (threadIdx.x < 20) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}
static void divergent_shuffle() { shuffle_of_some<<<1, THREADS>>>(new_floats(THREADS, true)); }

static __global__ void shuffle_from_outside(float *x) {
    x[threadIdx.x] = __shfl_down_sync(0x0000ffffu, x[threadIdx.x], 4);
}
static void shuffle_outside_of_mask() { shuffle_from_outside<<<1, 16>>>(new_floats(16, true)); }

// ---- races -----------------------------------------------------------------------------------

static __global__ void hand_on(float *x) { // block i reads what block i-1 has written
    if (threadIdx.x == 0) x[blockIdx.x + 1] = x[blockIdx.x] + 1;
}
static void order_of_blocks() { hand_on<<<4, THREADS>>>(new_floats(5, true)); }

static __global__ void all_write_one(float *x) { x[0] = threadIdx.x; }
static void two_writers() { all_write_one<<<1, THREADS>>>(new_floats(1, true)); }

static __global__ void add_without_atomics(float *x) { x[0] += 1; }
static void missing_atomic() { add_without_atomics<<<THREADS, 1>>>(new_floats(1, true)); }

static __global__ void count_and_look(unsigned *count, unsigned *seen) {
    atomicAdd(count, 1);
    if (blockIdx.x == 0) *seen = *count; // how many have come, at no certain time
}
static void read_beside_atomics() {
    count_and_look<<<2, 1>>>((unsigned *)new_floats(1, true), (unsigned *)new_floats(1, false));
}

// ---- copies into shared memory, and matrix products --------------------------------------------

// Copies two groups, waits until LEFT of them are under way, and hands on what the second brought.
template <int LEFT, bool BARRIER> static __global__ void copy_and_turn(const float *x, float *y) {
    extern __shared__ __align__(16) float dynamic[];
    __shared__ float4 tile[THREADS / 4];
    const unsigned i = threadIdx.x;
    copy_async<1>(dynamic + i, x + i, false);
    copies_commit();
    if (i < THREADS / 4) copy_async<4>((float *)(tile + i), x + 4 * i, true);
    copies_commit();
    copies_wait<LEFT>();
    if (BARRIER)
        __syncthreads();
    else
        __syncwarp();
    y[i] = ((const float *)tile)[THREADS - 1 - i];
    y[THREADS + i] = dynamic[THREADS - 1 - i];
    copies_wait<0>();
}
template <int LEFT, bool BARRIER> static void copy_and_turn_zeros() {
    const float *x = new_floats(THREADS, true);
    float *y = new_floats(2 * THREADS, false);
    copy_and_turn<LEFT, BARRIER><<<1, THREADS, THREADS * sizeof(float)>>>(x, y);
}
static void missing_wait_for_copies() { copy_and_turn_zeros<2, true>(); }
static void wait_for_too_few_copies() { copy_and_turn_zeros<1, true>(); }
static void missing_barrier_after_copies() { copy_and_turn_zeros<0, false>(); }

static __global__ void copy_what_others_read(const float *x, float *y) {
    __shared__ float tile[THREADS];
    tile[threadIdx.x] = 0;
    __syncthreads();
    y[threadIdx.x] = tile[THREADS - 1 - threadIdx.x];
    __syncwarp(); // the other warp may still read
    copy_async<1>(tile + threadIdx.x, x, true);
    copies_commit();
    __syncthreads();
    copies_wait<0>();
}
static void copy_begins_too_early() {
    const float *x = new_floats(1, true);
    copy_what_others_read<<<1, THREADS>>>(x, new_floats(THREADS, false));
}

static __global__ void copy_16_bytes(const float *x, bool wait) {
    __shared__ float4 tile;
    copy_async<4>((float *)&tile, x, true);
    copies_commit();
    if (wait) copies_wait<0>();
}
static void misaligned_copy() { copy_16_bytes<<<1, 1>>>(new_floats(8, true) + 1, true); }
static void copy_reads_behind_the_end() { copy_16_bytes<<<1, 1>>>(new_floats(3, true), true); }
static void copy_at_the_end() { copy_16_bytes<<<1, 1>>>(new_floats(4, true), false); }

static __global__ void product_of_some() {
    float D[4] = {};
    const unsigned A[4] = {}, B[2] = {};
    if (threadIdx.x < 40) mma_tf32(D, A, B);
}
static void divergent_product() { product_of_some<<<1, THREADS>>>(); }

// ---- memory ----------------------------------------------------------------------------------

static __global__ void write_at(float *x, int i) { x[i] = 1; }
static __global__ void read_at(const float *x, int i, float *y) { *y = x[i]; }

static void write_behind_the_end() { write_at<<<1, 1>>>(new_floats(10, true), 10); }
static void write_before_the_start() { write_at<<<1, 1>>>(new_floats(10, true), -1); }
static void read_behind_the_end() {
    float *x = new_floats(1000, true);
    read_at<<<1, 1>>>(x, 1000, new_floats(1, false));
}
static void read_what_nothing_wrote() {
    float *x = new_floats(3, false);
    write_at<<<1, 1>>>(x, 1);
    read_at<<<1, 1>>>(x, 2, new_floats(1, false));
}
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
static void host_reads_a_gpu() {
    volatile float x = new_floats(10, true)[3];
    (void)x;
}

static __global__ void read_float4(const float *x, float *y) { *y = ((const float4 *)x)->w; }
static float of_the_host = 1;
static void read_variable_of_the_host() {
    read_at<<<1, 1>>>(&of_the_host, 0, new_floats(1, false));
}
static void misaligned() {
    float *x = new_floats(10, true);
    read_float4<<<1, 1>>>(x, new_floats(1, false)); // this is right
    read_float4<<<1, 1>>>(x + 1, new_floats(1, false));
}

static __global__ void shared_index(int write, int read, float *y) {
    __shared__ float first[8], second[8];
    first[threadIdx.x] = second[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        first[write] = 1;
        *y = second[read] + first[0];
    }
}
static void shared_write_outside() { shared_index<<<1, 8>>>(8, 0, new_floats(1, false)); }
static void shared_read_outside() { shared_index<<<1, 8>>>(0, -1, new_floats(1, false)); }

static __global__ void shared_unwritten(float *y) { // the second block does not write it
    __shared__ float x;
    if (blockIdx.x == 0) x = 1;
    y[blockIdx.x] = x;
}
static void shared_that_nothing_wrote() { shared_unwritten<<<2, 1>>>(new_floats(2, false)); }

static __global__ void dynamic_index(int i) {
    extern __shared__ float x[];
    x[i] = 1;
}
static void dynamic_shared_outside() { dynamic_index<<<1, 1, 40>>>(10); }

static void copy_behind_the_end() {
    static float x[11];
    cudaMemcpy(new_floats(10, true), x, sizeof x, cudaMemcpyHostToDevice);
}
static void copy_of_what_nothing_wrote() {
    static float x[10];
    cudaMemcpy(x, new_floats(10, false), sizeof x, cudaMemcpyDeviceToHost);
}
static void copy_of_wrong_kind() {
    static float x[10];
    cudaMemcpy(x, new_floats(10, true), sizeof x, cudaMemcpyHostToDevice);
}
static void freed_twice() {
    float *x = new_floats(10, true);
    cudaFree(x);
    cudaFree(x);
}

static float *new_pinned() {
    void *memory = nullptr;
    cudaHostAlloc(&memory, 10 * sizeof(float), cudaHostAllocPortable);
    return (float *)memory;
}
static void freed_before_a_copy() {
    float *x = new_floats(10, true), *pinned = new_pinned();
    cudaMemcpyAsync(x, pinned, 10 * sizeof(float), cudaMemcpyHostToDevice, nullptr);
    cudaFreeHost(pinned);
}
static void by_way_of_the_host_too_early() {
    float *x = new_floats(10, true), *y = new_floats(10, true), *pinned = new_pinned();
    cudaStream_t other;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaMemcpyAsync(pinned, x, 10 * sizeof(float), cudaMemcpyDeviceToHost, nullptr);
    cudaMemcpyAsync(y, pinned, 10 * sizeof(float), cudaMemcpyHostToDevice, other);
}
static void kernel_reads_pinned_memory() {
    read_at<<<1, 1>>>(new_pinned(), 3, new_floats(1, false));
}

const Planted planted[] = {
#define PLANT(name, words)                                                                         \
    { #name, name, words }
    PLANT(missing_barrier, "of its block has"),
    PLANT(missing_second_barrier, "of its block has"),
    PLANT(divergent_barrier, "which only 32 of 64 threads reach"),
    PLANT(different_barriers, "which only 32 of 64 threads reach"),
    PLANT(divergent_shuffle, "lanes 0xffffffff of its warp, and not all come"),
    PLANT(shuffle_outside_of_mask, "is not in the mask 0x0000ffff"),
    PLANT(missing_wait_for_copies, "of shared memory that a copy has yet to write"),
    PLANT(wait_for_too_few_copies, "of shared memory that a copy has yet to write"),
    PLANT(missing_barrier_after_copies, "of its block has written"),
    PLANT(copy_begins_too_early, "of its block has read"),
    PLANT(misaligned_copy, "and not at multiples of 16"),
    PLANT(copy_reads_behind_the_end, "reads 16 bytes"),
    PLANT(copy_at_the_end, "ends before its copies into shared memory"),
    PLANT(divergent_product, "lanes 0xffffffff of its warp, and not all come"),
    PLANT(order_of_blocks, "of another block has"),
    PLANT(two_writers, "of its block has written"),
    PLANT(missing_atomic, "of another block has written"),
    PLANT(read_beside_atomics, "of another block has"),
    PLANT(write_behind_the_end, "0 bytes behind the 40 bytes of an allocation on GPU 0"),
    PLANT(write_before_the_start, "4 bytes before the 40 bytes of an allocation on GPU 0"),
    PLANT(read_behind_the_end, "reads 4 bytes"),
    PLANT(read_what_nothing_wrote, "of device memory that nothing has written"),
    PLANT(read_freed_memory, "in freed memory of GPU 0"),
    PLANT(read_memory_of_the_host, "in memory of the host"),
    PLANT(read_variable_of_the_host, "that nothing has written"),
    PLANT(read_memory_of_a_peer, "of GPU 0 from GPU 1"),
    PLANT(host_reads_a_gpu, "use-after-poison"),
    PLANT(misaligned, "misaligned address"),
    PLANT(shared_write_outside, "index 8 out of bounds for type 'float [8]'"),
    PLANT(shared_read_outside, "index -1 out of bounds for type 'float [8]'"),
    PLANT(shared_that_nothing_wrote, "of shared memory that nothing has written"),
    PLANT(dynamic_shared_outside, "behind the end of its shared memory"),
    PLANT(copy_behind_the_end, "writes 44 bytes 4 bytes behind the 40 bytes"),
    PLANT(copy_of_what_nothing_wrote, "of device memory that nothing has written"),
    PLANT(copy_of_wrong_kind, "from a GPU to the host"),
    PLANT(freed_twice, "no living allocation"),
    PLANT(freed_before_a_copy, "a copy reads 40 bytes in freed memory of the host"),
    PLANT(by_way_of_the_host_too_early, "what a copy in another stream has"),
    PLANT(kernel_reads_pinned_memory, "in memory of the host"),
};
const int num_planted = sizeof planted / sizeof planted[0];

// ---- what must work --------------------------------------------------------------------------

// The sum of 0..255 of each warp by shuffles, over the block by dynamic shared memory and a
// barrier, over the grid by an atomic.
static __global__ void sum_of_threads(unsigned *total, unsigned *even) {
    extern __shared__ unsigned of_warp[];
    unsigned value = threadIdx.y * blockDim.x + threadIdx.x, warp = value / 32, lane = value % 32;
    if (value % 2 == 0) atomicAdd(even, 1);
    for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    if (warp > 0) return;
    value = lane < 8 ? of_warp[lane] : 0;
    for (int bit = 1; bit < 8; bit *= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    value = __shfl_sync(0xffffffffu, value, 3);
    if (lane == 5) atomicAdd(total, value);
}

void planted_sums(unsigned *total, unsigned *even) {
    unsigned *memory = (unsigned *)new_floats(2, true);
    sum_of_threads<<<dim3(3, 2), dim3(16, 16), 8 * sizeof(unsigned)>>>(memory, memory + 1);
    cudaMemcpy(total, memory, sizeof *total, cudaMemcpyDeviceToHost);
    cudaMemcpy(even, memory + 1, sizeof *even, cudaMemcpyDeviceToHost);
    cudaFree(memory);
}

static __global__ void write_bytes(unsigned char *bytes) { bytes[threadIdx.x] = threadIdx.x; }
void planted_bytes(unsigned char bytes[32]) {
    unsigned char *memory = (unsigned char *)new_floats(8, false);
    write_bytes<<<1, 32>>>(memory); // neighbours, without an order: that is right
    cudaMemcpy(bytes, memory, 32, cudaMemcpyDeviceToHost);
    cudaFree(memory);
}

static __global__ void product(float *D, const float *A, const float *B) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const float *const my_A = A + g * 8 + t;
    const float a[4] = {my_A[0], my_A[64], my_A[4], my_A[68]},
                b[2] = {B[t * 8 + g], B[t * 8 + 32 + g]};
    unsigned a_bits[4], b_bits[2];
    float d[4] = {};
    memcpy(a_bits, a, sizeof a);
    memcpy(b_bits, b, sizeof b);
    mma_tf32(d, a_bits, b_bits);
    for (int i = 0; i < 4; i++) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}
void planted_product(float D[128], const float A[128], const float B[64]) {
    float *memory = new_floats(320, true);
    cudaMemcpy(memory + 128, A, 128 * sizeof *A, cudaMemcpyHostToDevice);
    cudaMemcpy(memory + 256, B, 64 * sizeof *B, cudaMemcpyHostToDevice);
    product<<<1, 32>>>(memory, memory + 128, memory + 256);
    cudaMemcpy(D, memory, 128 * sizeof *D, cudaMemcpyDeviceToHost);
    cudaFree(memory);
}

unsigned planted_tf32(float x) { return to_tf32(x); }

void planted_copies(float y[128], const float x[64]) {
    float *memory = new_floats(3 * THREADS, true);
    cudaMemcpy(memory, x, THREADS * sizeof *x, cudaMemcpyHostToDevice);
    copy_and_turn<0, true><<<1, THREADS, THREADS * sizeof(float)>>>(memory, memory + THREADS);
    cudaMemcpy(y, memory + THREADS, 2 * THREADS * sizeof *y, cudaMemcpyDeviceToHost);
    cudaFree(memory);
}

cudaError_t planted_dynamic(size_t bytes, int limit) {
    cudaError_t error = cudaSuccess;
    if (limit > 0)
        error =
            cudaFuncSetAttribute(dynamic_index, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
    dynamic_index<<<1, 1, bytes>>>((int)(bytes / sizeof(float)) - 1);
    const cudaError_t of_launch = cudaGetLastError();
    return error != cudaSuccess ? error : of_launch;
}

static __global__ void add_to(float *y, const float *x, float factor) { *y += factor * *x; }
void planted_add(float *y, const float *x, float factor, cudaStream_t stream) {
    add_to<<<1, 1, 0, stream>>>(y, x, factor);
}

static __global__ void take_ticket(unsigned *next, unsigned *ticket) {
    *ticket = atomicAdd(next, 1);
}
void planted_ticket(unsigned *next, unsigned *ticket, cudaStream_t stream) {
    take_ticket<<<1, 1, 0, stream>>>(next, ticket);
}
