// cpu.h: what a CPU kernel knows about the place it runs at.
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include "../kernels.h"
#ifdef _OPENMP
#include <omp.h>
#else // for the build with ThreadSanitizer
static inline int omp_get_thread_num(void) { return 0; }
#endif

// A lane is one CPU device's worker: how many cores it may use, and scratch memory of its own.
typedef struct CpuLane {
    int threads;   // OpenMP threads for this device's kernels, >= 1
    void *scratch; // grows to the largest request and is kept
    size_t scratch_bytes;
} CpuLane;

// Scratch memory for the running kernel (64-byte aligned, contents undefined). Valid until the
// kernel returns, or asks again.
void *cpu_scratch(CpuLane *lane, size_t bytes);
// Memory for tensors and scratch (64-byte aligned, contents undefined), for free(); NULL if there
// is none.
void *cpu_memory(size_t bytes);
// Called when there is no memory for that: ends the program with a message. Whoever uses the
// kernels defines it (common/device_cpu.c does), because kernels know nothing of common/.
_Noreturn void cpu_kernels_out_of_memory(size_t bytes);
void cpu_scratch_free(CpuLane *lane);

typedef void CpuKernel(CpuLane *lane, const void *args);
extern CpuKernel *const cpu_kernels[NUM_KERNELS];

// Called once before the first kernel: each BLAS call stays on the thread that makes it, because
// the kernels themselves spread their work over the threads of their lane.
void cpu_kernels_init(void);

// CPU_KERNEL(relu_forward) { ... a->X ... } defines the kernel with its own argument struct `a`.
#define CPU_KERNEL(name)                                                                           \
    static void name##_body(CpuLane *lane, const struct name##_args *a);                           \
    CpuKernel name##_cpu;                                                                          \
    void name##_cpu(CpuLane *lane, const void *args) { name##_body(lane, args); }                  \
    static void name##_body(__attribute__((unused)) CpuLane *lane, const struct name##_args *a)

// Compiles a function once per generation of vector units and picks the right one when the program
// starts, so that one binary is fast on old and new machines. What it compiles stays portable:
// plain loops, or vectors that the compiler cuts into those of the machine. (Only GCC can do this;
// clang compiles for what its options say, by default the oldest machines.)
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) &&      \
    defined(__GNUC__) && !defined(__clang__)
#define SIMD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SIMD_CLONES
#endif

#define INLINE static inline __attribute__((always_inline))

// Not worth waking other threads for less than this many floats.
enum { PARALLEL_FLOATS = 16384 };

// Gradients of parameters are sums over the rows (images) of a minibatch. They are added up as a
// tree: groups of 16 rows one row after the other, then halves to halves. That has two uses:
//   - groups can go to any thread, and the bits of the result do not depend on which;
//   - two devices with half the rows each compute the two halves of the tree, and allreduce adds
//     those. So they get the same bits as one device, if each half is whole groups.
// With more than 32 groups the groups become larger: 32 rows, 64, ...; then the second no longer
// holds. (Nor does it for convolutions whose sums are so large that they make groups larger.)
typedef struct SumTree {
    int group, groups; // rows in a group (the last may have fewer), number of groups, >= 1
} SumTree;
SumTree sum_tree(int rows);
// parts[0] = the sum of `num` parts, halves to halves; each is n floats, `stride` floats apart. The
// others are overwritten.
void add_halves(float *parts, size_t stride, int num, size_t n);

#endif
