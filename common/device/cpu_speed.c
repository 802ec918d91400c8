// cpu_speed.c: whether this CPU multiplies matrices as fast as it should. Times a small product and
// the CPU's clock, and compares the two.
#include "device.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef SANITIZED // make SANITIZE=... says so
#define SANITIZED 0
#endif

enum { SIDE = 192 };

static double seconds_of_a_product(CpuLane *lane, float *matrices) {
    size_t n = (size_t)SIDE * SIDE;
    struct gemm_args args = {.A = matrices, .B = matrices + n, .C = matrices + 2 * n};
    args.M = args.N = args.K = SIDE;
    double begin = seconds_now();
    cpu_instruction_set()->kernels[KERNEL_gemm](lane, &args);
    return seconds_now() - begin;
}

// FLOP per second of one thread in a product of matrices that its cache holds, found in about 5 ms.
// Takes the best of several, because other work on the machine can only make a product slower.
static double cpu_product_speed(void) {
    const double LONG_ENOUGH = 4e-3;
    CpuLane lane = {.threads = 1};
    float *matrices = xcalloc(3 * (size_t)SIDE * SIDE, sizeof *matrices);
    double best = seconds_of_a_product(&lane, matrices); // gets its memory
    for (double begin = seconds_now(); seconds_now() - begin < LONG_ENOUGH;)
        best = fmin(best, seconds_of_a_product(&lane, matrices));
    free(matrices);
    cpu_scratch_free(&lane);
    return 2.0 * SIDE * SIDE * SIDE / best;
}

// Cycles per second: each turn waits for the multiplication and the addition of the turn before it,
// and those take 4 cycles on nearly every CPU.
static double clock_rate(void) {
    enum { TURNS = 50000, CYCLES = 4 };
    double best = INFINITY;
    volatile uint64_t start = 1, end;
    for (int i = 0; i < 5; i++) {
        uint64_t x = start;
        double begin = seconds_now();
        for (int turn = 0; turn < TURNS; turn++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            __asm__ volatile("" : "+r"(x)); // or clang would merge turns
        }
        best = fmin(best, seconds_now() - begin);
        end = x;
    }
    (void)end;
    return (double)TURNS * CYCLES / best;
}

void warn_if_cpu_is_slow(void) {
    const InstructionSet *used = cpu_instruction_set(), *best = instruction_sets;
    while (!best->runs_here()) best++; // the best that this CPU has comes first
    if (used != best)
        warn("this run uses %s only, as BOOK_ISA=%s in the environment wants it; this CPU has %s",
             used->what, used->name, best->what);
    if (SANITIZED) return; // (slow, as is to be expected)
    // One multiplication and addition of vectors in each cycle is little. An idle CPU does more
    // than a quarter of that.
    double expected = 2.0 * used->lanes * clock_rate(), speed = cpu_product_speed();
    if (speed < expected / 4 && isfinite(expected)) // (A browser's clock is too coarse.)
        warn("products of matrices reach %.1f GFLOP/s here, where %.0f are to be expected (%s): is "
             "something else running, or was this compiled without -O3?",
             speed / 1e9, expected / 1e9, used->what);
}
