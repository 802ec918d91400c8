// cpu.h: what a CPU kernel knows about the place it runs at.
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include "kernels/kernels.h"
#ifdef _OPENMP
#include <omp.h>
#else // for the build with ThreadSanitizer
static inline int omp_get_thread_num(void) { return 0; }
#endif

// A lane is one CPU device's worker: how many cores it may use, and scratch memory of its own.
typedef struct CpuLane {
    // OpenMP threads for this device's kernels, >= 1. A kernel uses all of them or one: of a team
    // of fewer, OpenMP ends the others, and those that it starts later would stay on the worker's
    // core.
    int threads;
    void *(*memory)(size_t bytes); // where scratch comes from; NULL: from aligned_alloc()
    void *scratch;                 // grows to the largest request and is kept
    size_t scratch_bytes;
} CpuLane;

// Scratch memory for the running kernel (64-byte aligned, contents undefined). Valid until the
// kernel returns, or asks again.
void *cpu_scratch(CpuLane *lane, size_t bytes);
void cpu_scratch_free(CpuLane *lane);

typedef void CpuKernel(CpuLane *lane, const void *args);
struct Product;
typedef void CpuProduct(const struct Product *p);

// Every file in this folder is compiled once for each instruction set (cpu.mk says which), so
// that one program is fast on old and new machines, whatever compiler made it and whether or not
// anybody knew the CPU's model. What is compiled stays portable: plain loops, and vectors
// (vector.h). Only the table of kernels, and the product, can be seen from outside.
typedef struct InstructionSet {
    const char *name, *what;   // "v3", "AVX2"
    int lanes;                 // floats in a vector
    CpuKernel *const *kernels; // NUM_KERNELS of them
    CpuProduct *product;       // see product.h: what they multiply with
    bool (*runs_here)(void);   // whether this CPU, and its system, can do it
} InstructionSet;
// All that this program has, the best first; the last one has no name.
extern const InstructionSet instruction_sets[];
// The one that is used: BOOK_ISA=v3 in the environment names it, otherwise it is the best that this
// CPU has. The first call, which must not be made by two threads at once, ends the program if there
// is none of that name.
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

// Not worth waking other threads for less than this many floats.
enum { PARALLEL_FLOATS = 16384 };

// Gradients of parameters are sums over the rows (images) of a minibatch. They are added up as a
// tree: groups of 16 rows one row after the other, then halves to halves. That has two uses:
//   - groups can go to any thread, and the bits of the result do not depend on which;
//   - k devices, a power of two, with the k-th part of the rows each, compute parts of the tree; an
//     allreduce that adds halves to halves makes the rest of it (--allreduce tree; any, if k is 2).
//     So they get the same bits as one device, if the rows are a multiple of 16 k and at most 512.
// For each device must have whole groups, of as many rows as one device would make them: with more
// than 32 groups they become larger, 32 rows, 64, ... . Convolutions whose sums are very large, or
// whose images are very small, make groups larger too, LeNet's do not: tree_of_images() in
// conv2d.c, tree_of() in winograd_plan.c. Promised, and tested (tests/test_same_bits.c), is LeNet
// of chapter 4.
typedef struct SumTree {
    int group, groups; // rows in a group (the last may have fewer), number of groups, >= 1
} SumTree;
enum { MOST_GROUPS = 32 }; // that sum_tree() makes
SumTree sum_tree(int rows);
// parts[0] = the sum of `num` parts, halves to halves; each is n floats, `stride` floats apart. The
// others are overwritten.
void add_halves(float *parts, size_t stride, int num, size_t n);
void store_sums(float *out, const float *sums, size_t n, float beta); // out = sums, or += (1)

// ---- what the kernels with a fast version compute, in plain loops --------------------------------
//
// Read these first. They stand at the top of gemm.c, conv2d.c, avg_pool2d.c and batch_norm.c, and
// the tests compare the fast versions with them. Sums are in double, except in avg_pool2d's.
void gemm_naive(const struct gemm_args *a);
void conv2d_forward_naive(const struct conv2d_forward_args *a);
void conv2d_backward_input_naive(const struct conv2d_backward_input_args *a);
void conv2d_backward_params_naive(const struct conv2d_backward_params_args *a);
void avg_pool2d_forward_naive(const struct avg_pool2d_forward_args *a);
void avg_pool2d_backward_naive(const struct avg_pool2d_backward_args *a);
void batch_norm_stats_naive(const struct batch_norm_stats_args *a);
void batch_norm_forward_naive(const struct batch_norm_forward_args *a);
void batch_norm_backward_sums_naive(const struct batch_norm_backward_sums_args *a);
void batch_norm_backward_input_naive(const struct batch_norm_backward_input_args *a);

#endif
