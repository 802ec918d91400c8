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

// Shared variables are static variables, because blocks run one after the other. They are put into
// a section of their own, where the simulator knows them, each behind a red zone: bytes of this
// pattern, which nobody may touch.
#define CUDASIM_RED_ZONE                                                                           \
    { 0xcddcbaabcddcbaabull, 0xcddcbaabcddcbaabull, 0xcddcbaabcddcbaabull, 0xcddcbaabcddcbaabull }
#define CUDASIM_SHARED     static __attribute__((section("cudasim_shared"), used, aligned(32)))
#define CUDASIM_JOIN(a, b) a##b
#define CUDASIM_ZONE(number)                                                                       \
    CUDASIM_SHARED unsigned long long CUDASIM_JOIN(cudasim_red_zone_, number)[4] = CUDASIM_RED_ZONE
#define __shared__                                                                                 \
    CUDASIM_ZONE(__COUNTER__);                                                                     \
    CUDASIM_SHARED

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
struct alignas(16) int4 {
    int x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// To a thread these are constants, so reading them is no access to memory. kernels.cpp sets them.
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

// ---- threads that wait for each other --------------------------------------------------------

void cudasim_syncthreads(const char *file, int line);
// Waits for the threads in `mask` of this warp, then returns what thread `lane` of it has given.
// All of them must be at the same line. A `lane` below 0 is for oneself.
uint64_t cudasim_exchange(unsigned mask, uint64_t bits, int lane, const char *file, int line);
unsigned cudasim_ballot(unsigned mask, bool vote, const char *file, int line);
int cudasim_lane(void);
void *cudasim_dynamic_shared(void);

static constexpr unsigned cudasim_mask(unsigned mask = 0xffffffffu) { return mask; }
static constexpr int cudasim_width(int width = warpSize) { return width; }

#define __syncthreads() cudasim_syncthreads(__FILE__, __LINE__)
#define __syncwarp(...)                                                                            \
    ((void)cudasim_exchange(cudasim_mask(__VA_ARGS__), 0, -1, __FILE__, __LINE__))
#define __ballot_sync(mask, vote) cudasim_ballot(mask, (vote) != 0, __FILE__, __LINE__)
#define __any_sync(mask, vote)    (__ballot_sync(mask, vote) != 0)
#define __all_sync(mask, vote)    (__ballot_sync(mask, !(vote)) == 0)

template <class T>
CUDASIM_UNSEEN T cudasim_shuffle(unsigned mask, T value, int lane, const char *file, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = cudasim_exchange(mask, bits, lane, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}
// The lane `to`, if it is in this thread's group of `width` lanes; else oneself.
CUDASIM_UNSEEN static inline int cudasim_in_group(int to, int width) {
    return to / width == cudasim_lane() / width && to >= 0 ? to : -1;
}
#define CUDASIM_SHUFFLE(mask, value, lane) cudasim_shuffle(mask, value, lane, __FILE__, __LINE__)
#define __shfl_sync(mask, value, lane, ...)                                                        \
    CUDASIM_SHUFFLE(mask, value,                                                                   \
                    cudasim_lane() / cudasim_width(__VA_ARGS__) * cudasim_width(__VA_ARGS__) +     \
                        (lane) % cudasim_width(__VA_ARGS__))
#define __shfl_xor_sync(mask, value, bits, ...)                                                    \
    CUDASIM_SHUFFLE(mask, value,                                                                   \
                    cudasim_in_group(cudasim_lane() ^ (bits), cudasim_width(__VA_ARGS__)))
#define __shfl_down_sync(mask, value, by, ...)                                                     \
    CUDASIM_SHUFFLE(mask, value,                                                                   \
                    cudasim_in_group(cudasim_lane() + (int)(by), cudasim_width(__VA_ARGS__)))
#define __shfl_up_sync(mask, value, by, ...)                                                       \
    CUDASIM_SHUFFLE(mask, value,                                                                   \
                    cudasim_in_group(cudasim_lane() - (int)(by), cudasim_width(__VA_ARGS__)))

// ---- atomics ---------------------------------------------------------------------------------

// Threads change only at barriers, so a plain update is atomic; the simulator is told of it.
void cudasim_atomic(void *at, size_t bytes);

template <class T, class F> CUDASIM_UNSEEN T cudasim_update(T *at, F next) {
    cudasim_atomic(at, sizeof *at);
    T old = *at;
    *at = next(old);
    return old;
}
#define CUDASIM_ATOMIC(name, result)                                                               \
    template <class T> CUDASIM_UNSEEN T name(T *at, decltype(T()) value) {                         \
        return cudasim_update(at, [=](T old) CUDASIM_UNSEEN -> T { return result; });              \
    }
CUDASIM_ATOMIC(atomicAdd, old + value)
CUDASIM_ATOMIC(atomicSub, old - value)
CUDASIM_ATOMIC(atomicMax, old > value ? old : value)
CUDASIM_ATOMIC(atomicMin, old < value ? old : value)
CUDASIM_ATOMIC(atomicExch, (void(old), value))
template <class T> CUDASIM_UNSEEN T atomicCAS(T *at, decltype(T()) expected, decltype(T()) value) {
    return cudasim_update(at,
                          [=](T old) CUDASIM_UNSEEN -> T { return old == expected ? value : old; });
}

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

template <class... P> struct CudasimLaunch {
    const char *name;
    void (*kernel)(P...);
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;

    CUDASIM_UNSEEN void operator()(P... arguments) const {
        auto thread = [function = kernel, arguments...]()
                          CUDASIM_UNSEEN { function(arguments...); };
        cudasim_launch(name, grid, block, shared_bytes, stream,
                       new CudasimWorkOf<decltype(thread)>(thread));
    }
};

template <class... P> struct CudasimKernel {
    const char *name;
    void (*kernel)(P...);
    CUDASIM_UNSEEN CudasimLaunch<P...> operator()(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                                  cudaStream_t stream = nullptr) const {
        return {name, kernel, grid, block, shared_bytes, stream};
    }
};

template <class... P> CudasimKernel<P...> cudasim_kernel(const char *name, void (*kernel)(P...)) {
    return {name, kernel};
}
#define CUDASIM_KERNEL(...) cudasim_kernel(#__VA_ARGS__, __VA_ARGS__)

// ---- cuBLAS ----------------------------------------------------------------------------------

// cublas_load.cu opens the library while the program runs: it gets the simulator's.
extern "C" void *cudasim_dlopen(const char *library, int flags);
extern "C" void *cudasim_dlsym(void *library, const char *name);
extern "C" char *cudasim_dlerror(void);
#define dlopen  cudasim_dlopen
#define dlsym   cudasim_dlsym
#define dlerror cudasim_dlerror

#endif
