// cpu.c: what the kernels of all instruction sets share: the list of sets, the choice of one, and
// scratch memory.
#include "kernels/cpu/cpu.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>

// ---- instruction sets --------------------------------------------------------------------------
//
// The levels are those of the x86-64 psABI. We ask a CPU which instructions it has, never for its
// model name, so that CPUs that come out later are used as well as they can be.

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
#ifdef HAS_v4 // cpu/cpu.mk says which sets the kernels were compiled for
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

#else // only one set: NEON on 64-bit Arm, elsewhere the compiler's default

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

// The set that BOOK_ISA in the environment names, or else the best that this CPU has.
static const InstructionSet *choose_instruction_set(void) {
    const char *wanted = getenv("BOOK_ISA");
    for (const InstructionSet *set = instruction_sets; set->name; set++) {
        if (wanted && *wanted && strcmp(wanted, set->name) != 0) continue;
        if (set->runs_here()) return set;
        if (wanted && *wanted)
            kernels_fail("leave BOOK_ISA out of the environment, or name another: v1, v2, v3",
                         "BOOK_ISA=%s: this CPU has no %s", wanted, set->what);
    }
    kernels_fail(
        "BOOK_ISA is v1, v2, v3 or v4 (on Arm: neon); without it, it is the best that this CPU has",
        "BOOK_ISA=%s in the environment names no instruction set", wanted ? wanted : "");
}

const InstructionSet *cpu_instruction_set(void) {
    static const InstructionSet *chosen;
    if (!chosen) chosen = choose_instruction_set();
    return chosen;
}

// ---- memory ------------------------------------------------------------------------------------

void *cpu_scratch(CpuLane *lane, size_t bytes) {
    if (bytes <= lane->scratch_bytes) return lane->scratch;
    free(lane->scratch);
    lane->scratch = lane->memory ? lane->memory(bytes) : aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!lane->scratch)
        kernels_fail("use a smaller --batch-size, or close other programs",
                     "out of memory: %zu bytes of scratch for a kernel", bytes);
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

void cpu_scratch_free(CpuLane *lane) {
    free(lane->scratch);
    lane->scratch = NULL;
    lane->scratch_bytes = 0;
}
