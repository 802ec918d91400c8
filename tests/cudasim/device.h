// device.h: the words of CUDA C++, for .cu files that the host's compiler compiles. It is included
// in front of each; see README.md for how the rest comes about.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <cuda_runtime_api.h>

// ---- where a variable lives ------------------------------------------------------------------

#define __global__ __attribute__((noinline)) // see below
#define __device__
#define __host__
#define __shared__       static // because blocks run one after the other
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

// Accesses in code of this kind are not shown to the simulator. (g++ 10 would put it into what is
// shown, and kernels into what is not: there, what is inlined is treated like its surroundings.)
#define CUDASIM_UNSEEN __attribute__((no_sanitize("thread", "undefined"), noinline))

// ---- vector types and where a thread is ------------------------------------------------------

struct uint3 {
    unsigned x, y, z;
};
struct dim3 : uint3 {
    CUDASIM_UNSEEN dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : uint3{a, b, c} {}
};
struct alignas(16) float4 {
    float x, y, z, w;
};

// To a thread these are constants, so reading them is no access to memory. kernels.cpp sets them.
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;

// ---- threads that wait for each other --------------------------------------------------------

// `place` is where in the source they wait: FILE:LINE.
void cudasim_syncthreads(const char *place);
// Waits for the threads in `mask` of this warp, then returns what thread `lane` of it has given.
// All of them must be at the same place.
uint64_t cudasim_exchange(unsigned mask, uint64_t bits, int lane, const char *place);
int cudasim_lane(void);
void *cudasim_dynamic_shared(void);

#define CUDASIM_TEXT(x)    #x
#define CUDASIM_TEXT_OF(x) CUDASIM_TEXT(x)
#define CUDASIM_PLACE      __FILE__ ":" CUDASIM_TEXT_OF(__LINE__)

#define __syncthreads() cudasim_syncthreads(CUDASIM_PLACE)

template <class T>
CUDASIM_UNSEEN T cudasim_shuffle(unsigned mask, T value, int lane, const char *place) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = cudasim_exchange(mask, bits, lane, place);
    memcpy(&value, &bits, sizeof value);
    return value;
}
// (Over whole warps: nobody uses the optional last argument, a width, or another shuffle.)
#define __shfl_xor_sync(mask, value, bits)                                                         \
    cudasim_shuffle(mask, value, cudasim_lane() ^ (bits), CUDASIM_PLACE)

// ---- mma.cuh ---------------------------------------------------------------------------------

// `place` is the instruction after the copy.
void cudasim_copy_async(float *to, const float *from, int floats, bool inside, void *place);
void cudasim_copies_wait(unsigned groups);
void copies_commit(void);
void cudasim_mma(float *D, const unsigned *A, const unsigned *B, const char *place);

template <int FLOATS> CUDASIM_UNSEEN void copy_async(float *to, const float *from, bool inside) {
    static_assert(FLOATS == 1 || FLOATS == 4, "a copy has 4 or 16 bytes");
    cudasim_copy_async(to, from, FLOATS, inside, __builtin_return_address(0));
}
template <int GROUPS> CUDASIM_UNSEEN void copies_wait() { cudasim_copies_wait(GROUPS); }
#define mma_tf32(D, A, B) cudasim_mma(D, A, B, CUDASIM_PLACE)

CUDASIM_UNSEEN static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
CUDASIM_UNSEEN static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// (Each lane reads what it would be given.)
static inline void load_matrices(unsigned first[2], unsigned second[2], const float *shared) {
    shared += cudasim_lane();
    first[0] = __float_as_uint(shared[0]);
    first[1] = __float_as_uint(shared[32]);
    second[0] = __float_as_uint(shared[64]);
    second[1] = __float_as_uint(shared[96]);
}

// To nearest, ties away from zero: half of the last bit that stays, then cut off.
CUDASIM_UNSEEN static inline unsigned to_tf32(float x) {
    return x != x ? 0x7fffffffu : (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}

// ---- launches --------------------------------------------------------------------------------

// thread(arguments) is what one thread does; they are copied. What is wrong with the launch is left
// for cudaGetLastError().
void cudasim_launch(const char *kernel, const void *function, dim3 grid, dim3 block,
                    size_t shared_bytes, cudaStream_t stream, void (*thread)(const void *arguments),
                    const void *arguments, size_t bytes);

// kernel<<<grid, block, bytes, stream>>>(arguments) becomes, by launch.sed,
// CUDASIM_KERNEL(kernel)(grid, block, bytes, stream)(arguments).
template <class Call> CUDASIM_UNSEEN void cudasim_call(const void *call) {
    (*(const Call *)call)();
}

template <class Kernel>
CUDASIM_UNSEEN auto cudasim_kernel(const char *name, const void *function, Kernel kernel) {
    return [=](dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
               CUDASIM_UNSEEN {
                   return [=](auto... arguments) CUDASIM_UNSEEN {
                       auto call = [=]() CUDASIM_UNSEEN { kernel(arguments...); };
                       cudasim_launch(name, function, grid, block, shared_bytes, stream,
                                      cudasim_call<decltype(call)>, &call, sizeof call);
                   };
               };
}
#define CUDASIM_KERNEL(...)                                                                        \
    cudasim_kernel(#__VA_ARGS__, (const void *)__VA_ARGS__,                                        \
                   [=](auto... a) CUDASIM_UNSEEN { __VA_ARGS__(a...); })

// As cuda_runtime.h has it for C++.
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

// ---- cuBLAS ----------------------------------------------------------------------------------

// cublas_load.cu opens the library while the program runs: it gets the simulator's (load.cpp).
extern "C" void *cudasim_dlopen(const char *library, int flags);
extern "C" void *cudasim_dlsym(void *library, const char *name);
extern "C" char *cudasim_dlerror(void);
#define dlopen  cudasim_dlopen
#define dlsym   cudasim_dlsym
#define dlerror cudasim_dlerror
