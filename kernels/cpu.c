// cpu.c: what the kernels of all instruction sets share: which sets there are, and memory.
#include "cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

// ---- instruction sets --------------------------------------------------------------------------
//
// The levels are those of the x86-64 psABI. A CPU is asked what it can do, never what it is called:
// so the next one, which nobody has heard of yet, is as fast as it can be.

#if defined(__x86_64__)

static bool any(void) { return true; }
__attribute__((unused)) static bool has_v2(void) {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
__attribute__((unused)) static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
__attribute__((unused)) static bool has_v4(void) {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

extern CpuKernel *const cpu_kernels_v1[], *const cpu_kernels_v2[], *const cpu_kernels_v3[],
                                                                       *const cpu_kernels_v4[];
CpuProduct cpu_product_v1, cpu_product_v2, cpu_product_v3, cpu_product_v4;
const InstructionSet instruction_sets[] = {
#ifdef HAS_v4 // the Makefile says which sets the kernels were compiled for
    {"v4", "AVX-512", 16, cpu_kernels_v4, cpu_product_v4, has_v4},
#endif
#ifdef HAS_v3
    {"v3", "AVX2", 8, cpu_kernels_v3, cpu_product_v3, has_v3},
#endif
#ifdef HAS_v2
    {"v2", "SSE4.2", 4, cpu_kernels_v2, cpu_product_v2, has_v2},
#endif
    {"v1", "SSE2", 4, cpu_kernels_v1, cpu_product_v1, any}, // every x86-64 has that
    {0},
};

#else // one set is all there is: NEON on 64-bit Arm, elsewhere what the compiler makes of it

static bool any(void) { return true; }
extern CpuKernel *const cpu_kernels_plain[];
CpuProduct cpu_product_plain;
const InstructionSet instruction_sets[] = {
#if defined(__aarch64__)
    {"neon", "NEON", 4, cpu_kernels_plain, cpu_product_plain, any},
#else
    {"plain", "the compiler's usual instructions", 4, cpu_kernels_plain, cpu_product_plain, any},
#endif
    {0},
};

#endif

// ---- memory ------------------------------------------------------------------------------------

void *cpu_scratch(CpuLane *lane, size_t bytes) {
    if (bytes <= lane->scratch_bytes) return lane->scratch;
    free(lane->scratch);
    lane->scratch = cpu_memory(bytes);
    if (!lane->scratch) cpu_kernels_out_of_memory(bytes);
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

// A page of 4 KiB needs an entry in the core's table of pages, and so does one of 2 MiB; the table
// is short. Linux gives large pages to those who ask.
void *cpu_memory(size_t bytes) {
    enum { LARGE_PAGE = 2 << 20 };
    void *memory = NULL;
    bool large = bytes >= LARGE_PAGE;
    if (posix_memalign(&memory, large ? LARGE_PAGE : 64, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (large) madvise(memory, bytes, MADV_HUGEPAGE); // if it is not to be had, so be it
#endif
    return memory;
}

void cpu_scratch_free(CpuLane *lane) {
    free(lane->scratch);
    lane->scratch = NULL;
    lane->scratch_bytes = 0;
}
