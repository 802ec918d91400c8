// test.h: what all tests in C begin with: cmocka, and, for those that run on each kind of device:
//
//     TEST_ON_BOTH(test_relu) {
//         Device *device = device_under_test(state);
//         ...
#pragma once

// clang-format off (cmocka.h needs the four before it)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device/device.h"
#include "common/tensor/random.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// With sanitizers (make SANITIZE=... defines it as 1) everything takes several times as long.
#ifndef SANITIZED
#define SANITIZED 0
#endif

// skip("no GPU"): tests/run.sh counts by reason, and cmocka knows none.
#undef skip
#define skip(why) (print_message("# SKIP %s\n", (why)), _skip(__FILE__, __LINE__))

// Two entries in a list of tests: one on a CPU device, one on a GPU. Where there is no GPU the
// second is counted as skipped.
#define ON_BOTH(test) ON_CPU(test), ON_GPU(test)
#define ON_GPU(test)                                                                               \
    { "cuda: " #test, test, NULL, NULL, (void *)"cuda" }
#define ON_CPU(test)                                                                               \
    { "cpu: " #test, test, NULL, NULL, (void *)"cpu" }

// With simulated GPUs (tests/cudasim) a program runs twice: with CUDASIM_GPUS=0 all but the "cuda"
// entries, and with GPUs all but the "cpu" entries. Those below take long there, or use no GPU.
#ifdef CUDASIM
enum { SIMULATED = 1 };
#define UNLESS_SIMULATED         ON_CPU
#define ON_BOTH_UNLESS_SIMULATED ON_CPU
__attribute__((constructor)) static void choose_entries(void) {
    const char *gpus = getenv("CUDASIM_GPUS");
    cmocka_set_skip_filter(gpus && strcmp(gpus, "0") == 0 ? "cuda: *" : "cpu: *");
}
#else
enum { SIMULATED = 0 };
#define UNLESS_SIMULATED         cmocka_unit_test
#define ON_BOTH_UNLESS_SIMULATED ON_BOTH
#endif

// Where tests/inline_test.sh runs a test, its CPU devices are those of --backend inline.
static inline void init_devices(BackendChoice choice, int threads) {
    bool at_once = getenv("TEST_INLINE") && (choice == BACKEND_CPU || choice == BACKEND_AUTO);
    devices_init(at_once ? BACKEND_INLINE : choice, threads);
}
static inline void close_devices(void) {
    devices_close();
    if (getenv("TEST_INLINE")) devices_init(BACKEND_INLINE, 0);
}
__attribute__((constructor)) static void begin_inline(void) {
    if (getenv("TEST_INLINE")) devices_init(BACKEND_INLINE, 0);
}
#define devices_init    init_devices
#define devices_close() close_devices()

// Of what random_floats() is to give next; each draw counts it up.
static uint64_t next_seed;

// A test begins with the same seed wherever it runs: it must not see other numbers because another
// one ran before it, on a machine with a GPU.
static inline Device *device_under_test(void **state) {
    next_seed = 0;
    if (strcmp(*state, "cpu") == 0) return cpu_device(0);
    if (num_gpus() == 0) skip("no GPU");
    return try_gpu(0);
}

// So many of that kind.
static inline void devices_under_test(void **state, int k, Device *devices[]) {
    bool gpu = device_gpu(device_under_test(state)) >= 0;
    for (int i = 0; i < k; i++) devices[i] = gpu ? try_gpu(i) : cpu_device(i);
}

// Uniform in (-1,1); a function of the seed alone.
static inline void random_floats(float *values, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(2 * random_uniform(seed, STREAM_TEST, i) - 1);
}

// |got - expected| <= tolerance * max(1, |expected|) for each element; false for a NaN on either
// side.
static inline void assert_all_close(const float *got, const double *expected, size_t n,
                                    double tolerance, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) <= tolerance * fmax(1, fabs(expected[i]))))
            fail_msg("%s: element %zu of %zu is %.9g, expected %.9g", what, i, n, got[i],
                     expected[i]);
}
