// cpu.h: what every CPU kernel uses: its lane, scratch memory, CPU_KERNEL, and sums over a
// minibatch. To write a kernel, define it with CPU_KERNEL. To run one, take its function from the
// kernels of cpu_instruction_set() and call it with a lane and the arguments, as
// common/device/device_cpu.c does.
//
// Read the kernels in this folder first; fast/ has what makes them fast.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "kernels/kernels.h"
#ifdef _OPENMP
#include <omp.h>
#else // the build with ThreadSanitizer
static inline int omp_get_thread_num(void) { return 0; }
#endif

// A lane is one CPU device's worker: the number of cores it may use, and its own scratch memory.
typedef struct CpuLane {
    // OpenMP threads for this device's kernels, >= 1. A kernel uses either all of them or just one:
    // for a team of any other size, OpenMP would end the remaining threads and later start new
    // ones, which would be pinned to the worker's core.
    int threads;
    void *(*memory)(size_t bytes); // where scratch comes from; NULL: from aligned_alloc()
    void *scratch;                 // grows to the largest request and is kept
    size_t scratch_bytes;
} CpuLane;

// Scratch memory for the running kernel (64-byte aligned, contents undefined). It is valid until
// the kernel returns or calls this again.
void *cpu_scratch(CpuLane *lane, size_t bytes);
void cpu_scratch_free(CpuLane *lane);

typedef void CpuKernel(CpuLane *lane, const void *args);
struct Product;
typedef void CpuProduct(const struct Product *p);

// Every file in this folder and in fast/ is compiled once for each instruction set (cpu.mk lists
// them), so that one program is fast on old and new machines. The source stays portable: plain
// loops, and vectors (fast/vector.h). Only the table of kernels and the product are visible from
// outside.
typedef struct InstructionSet {
    const char *name, *what;   // "v3", "AVX2"
    int lanes;                 // floats in a vector
    CpuKernel *const *kernels; // NUM_KERNELS of them
    CpuProduct *product;       // the matrix product that they use, for benchmarks: fast/product.h
    bool (*runs_here)(void);   // whether this CPU and its operating system support the set
} InstructionSet;
// All sets that this program has, the best first; the last entry has no name.
extern const InstructionSet instruction_sets[];
// The set that is used: the one that BOOK_ISA in the environment names, such as BOOK_ISA=v3, or
// else the best that this CPU has. The first call must not be made by two threads at once. It ends
// the program if there is no set of that name.
const InstructionSet *cpu_instruction_set(void);

// CPU_KERNEL(relu_forward) { ... a->X ... } defines the kernel with its own argument struct `a`.
#define CPU_KERNEL(name)                                                                           \
    static void name##_body(CpuLane *lane, const struct name##_args *a);                           \
    CpuKernel name##_cpu;                                                                          \
    void name##_cpu(CpuLane *lane, const void *args) { name##_body(lane, args); }                  \
    static void name##_body(__attribute__((unused)) CpuLane *lane, const struct name##_args *a)

static inline int smaller(int a, int b) { return a < b ? a : b; }
static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int divide_up(int a, int b) { return (a + b - 1) / b; } // a >= 0

// With fewer floats than this, it is not worth waking other threads.
enum { PARALLEL_FLOATS = 16384 };

// Gradients of parameters are sums over the rows (images) of a minibatch. They are added up as a
// tree: first the 16 rows of each group in order, then halves to halves. This has two uses:
//   - any thread can take any group, and the bits of the result do not depend on which;
//   - k devices, a power of two, with a k-th of the rows each, compute parts of the same tree. An
//     allreduce that adds halves to halves completes it (--allreduce tree; any, if k is 2). So the
//     result is bit-identical to that of one device, if the number of rows is a multiple of 16 k
//     and at most 512.
// The limits make sure that each device has whole groups of the size that one device would use:
// with more than 32 groups, groups grow to 32 rows, 64, ... . Convolutions whose sums are very
// large or whose images are very small use larger groups too (tree_of_images() in fast/windows.c,
// tree_of() in fast/winograd_plan.c); LeNet's do not. The promise, which tests/test_trainers.c
// tests, is for LeNet of chapter 4.
typedef struct SumTree {
    int group, groups; // rows in a group (the last may have fewer), number of groups, >= 1
} SumTree;
enum { MOST_GROUPS = 32 }; // sum_tree() makes no more
SumTree sum_tree(int rows);
SumTree sum_tree_of(int rows, int groups); // so many equal groups; with 0, sum_tree()
// parts[0] = the sum of `num` parts, halves to halves. Each part is n floats, and they are `stride`
// floats apart. The other parts are overwritten.
void add_halves(float *parts, size_t stride, int num, size_t n);
void store_sums(float *out, const float *sums, size_t n, float beta); // out = sums, or += (1)

// ---- what the fastest kernels compute, in plain loops -------------------------------------------
//
// They are at the top of gemm.c and conv2d.c. The tests compare the fast versions with them. Sums
// are in double.
void gemm_naive(const struct gemm_args *a);
void conv2d_forward_naive(const struct conv2d_forward_args *a);
void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a);
void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a);
