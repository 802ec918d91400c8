// device.h: the words of CUDA C++, for .cu files that the host's compiler compiles. It is included
// in front of each; see README.md for how the rest comes about.
#ifndef CUDASIM_DEVICE_H
#define CUDASIM_DEVICE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <cuda_runtime_api.h>

// ---- where a variable lives ------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// Shared variables are static variables, because blocks run one after the other.
#define __shared__ static

// Accesses in code of this kind are not shown to the simulator.
#define CUDASIM_UNSEEN __attribute__((no_sanitize("thread", "undefined")))

// ---- vector types and where a thread is ------------------------------------------------------

struct uint3 {
    unsigned x, y, z;
};
struct dim3 : uint3 {
    CUDASIM_UNSEEN dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : uint3{a, b, c} {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

// To a thread these are constants, so reading them is no access to memory. kernels.cpp sets them.
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

// ---- threads that wait for each other --------------------------------------------------------

void cudasim_syncthreads(const char *file, int line);
// Waits for the threads in `mask` of this warp, then returns what thread `lane` of it has given.
// All of them must be at the same line. A `lane` below 0 is for oneself.
uint64_t cudasim_exchange(unsigned mask, uint64_t bits, int lane, const char *file, int line);
int cudasim_lane(void);
void *cudasim_dynamic_shared(void);

static constexpr unsigned cudasim_mask(unsigned mask = 0xffffffffu) { return mask; }

#define __syncthreads() cudasim_syncthreads(__FILE__, __LINE__)
#define __syncwarp(...)                                                                            \
    ((void)cudasim_exchange(cudasim_mask(__VA_ARGS__), 0, -1, __FILE__, __LINE__))

template <class T>
CUDASIM_UNSEEN T cudasim_shuffle(unsigned mask, T value, int lane, const char *file, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = cudasim_exchange(mask, bits, lane < warpSize ? lane : -1, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}
// (Over whole warps: nobody uses the optional last argument, a width.)
#define CUDASIM_SHUFFLE(mask, value, lane) cudasim_shuffle(mask, value, lane, __FILE__, __LINE__)
#define __shfl_sync(mask, value, lane)     CUDASIM_SHUFFLE(mask, value, (lane) % warpSize)
#define __shfl_xor_sync(mask, value, bits) CUDASIM_SHUFFLE(mask, value, cudasim_lane() ^ (bits))
#define __shfl_down_sync(mask, value, by)  CUDASIM_SHUFFLE(mask, value, cudasim_lane() + (int)(by))
#define __shfl_up_sync(mask, value, by)    CUDASIM_SHUFFLE(mask, value, cudasim_lane() - (int)(by))

// ---- atomics ---------------------------------------------------------------------------------

// Threads change only at barriers, so a plain update is atomic; the simulator is told of it.
void cudasim_atomic(void *at, size_t bytes);

#define CUDASIM_ATOMIC(name, result)                                                               \
    template <class T> CUDASIM_UNSEEN T name(T *at, decltype(T()) value) {                         \
        cudasim_atomic(at, sizeof *at);                                                            \
        T old = *at;                                                                               \
        *at = result;                                                                              \
        return old;                                                                                \
    }
CUDASIM_ATOMIC(atomicAdd, old + value)
CUDASIM_ATOMIC(atomicMax, old > value ? old : value)
CUDASIM_ATOMIC(atomicMin, old < value ? old : value)
CUDASIM_ATOMIC(atomicExch, value)

// ---- launches --------------------------------------------------------------------------------

// A kernel with its arguments; run() is what one thread does.
struct CudasimWork {
    virtual void run() const = 0;
    virtual ~CudasimWork() {}
};
// Takes `work` over. What is wrong with the launch is left for cudaGetLastError().
void cudasim_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, const CudasimWork *work);

template <class F> struct CudasimWorkOf final : CudasimWork {
    F function;
    CUDASIM_UNSEEN explicit CudasimWorkOf(F f) : function(f) {}
    CUDASIM_UNSEEN void run() const override { function(); }
};

// kernel<<<grid, block, bytes, stream>>>(arguments) becomes, by launch.sed,
// CUDASIM_KERNEL(kernel)(grid, block, bytes, stream)(arguments).
template <class Kernel> CUDASIM_UNSEEN auto cudasim_kernel(const char *name, Kernel kernel) {
    return [=](dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
               CUDASIM_UNSEEN {
                   return [=](auto... arguments) CUDASIM_UNSEEN {
                       auto thread = [=]() CUDASIM_UNSEEN { kernel(arguments...); };
                       cudasim_launch(name, grid, block, shared_bytes, stream,
                                      new CudasimWorkOf<decltype(thread)>(thread));
                   };
               };
}
#define CUDASIM_KERNEL(...)                                                                        \
    cudasim_kernel(#__VA_ARGS__, [](auto... a) CUDASIM_UNSEEN { __VA_ARGS__(a...); })

// ---- cuBLAS ----------------------------------------------------------------------------------

// cublas_load.cu opens the library while the program runs: it gets the simulator's.
void *cudasim_dlopen(const char *library, int flags);
void *cudasim_dlsym(void *library, const char *name);
char *cudasim_dlerror(void);
#define dlopen  cudasim_dlopen
#define dlsym   cudasim_dlsym
#define dlerror cudasim_dlerror

#endif
