// cases.h: tensors that a test makes and need not free, tests that need no list, and a table of
// what must end the program.
#pragma once

#include "dies.h"

#include "common/base/error.h"
#include "common/tensor/tensor.h"

// ---- kept until free_kept(), at the end of all tests -----------------------------------------

static struct Kept {
    struct Kept *next;
    void *memory;
    Tensor *tensor;
} * kept;

static inline void keep_both(void *memory, Tensor *tensor) {
    struct Kept *one = xmalloc(sizeof *one);
    *one = (struct Kept){kept, memory, tensor};
    kept = one;
}

static inline Tensor *keep(Tensor *t) { return keep_both(NULL, t), t; }

static inline void *keep_memory(void *memory) { return keep_both(memory, NULL), memory; }

static inline float *values_of(const Tensor *t) { return keep_memory(tensor_values(t)); }

static inline void free_kept(void) {
    for (struct Kept *one; (one = kept); free(one)) {
        kept = one->next;
        free(one->memory);
        tensor_free(one->tensor);
    }
}

// The end of all tests; and of those with a folder.
static inline int close_kept(void **state) { return free_kept(), devices_end(state); }
static inline int close_and_clean(void **state) {
    return close_kept(state), remove_test_folder(state);
}

// Random numbers of either sign whose size is between 0.3 and 1: a step of eps < 0.3 does not cross
// the kink of relu.
static inline Tensor *random_tensor(Device *device, int ndim, const int *shape) {
    Tensor *t = keep(tensor_of_shape(device, ndim, shape));
    float *values = keep_memory(xmalloc(tensor_bytes(t) + 1));
    random_floats(values, numel(t), next_seed++);
    for (size_t i = 0; i < numel(t); i++) values[i] = copysignf(0.3f, values[i]) + 0.7f * values[i];
    tensor_write(t, values);
    return t;
}

static inline Tensor *vector_of(Device *device, int n, float value) {
    Tensor *t = keep(tensor_new(device, n));
    tensor_fill(t, value);
    return t;
}
static inline void assert_filled(const Tensor *t, float value) {
    const float *values = values_of(t);
    for (size_t i = 0; i < numel(t); i++) assert_true(values[i] == value);
}

static inline Tensor *trained(Tensor *t) { return attach_grad(t), t; }

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]) { __VA_ARGS__ }
#define RANDOM(device, ...) random_tensor((device), SHAPE(__VA_ARGS__))
#define PARAM(device, ...)  trained(RANDOM((device), __VA_ARGS__))

// ---- rows of a table that are code -----------------------------------------------------------

#define JOIN(a, b)  JOIN_(a, b)
#define JOIN_(a, b) a##b
// A function of this line, that runs before main().
#define AT_START(...)                                                                              \
    __attribute__((constructor)) static void JOIN(at_start_, __LINE__)(void) { __VA_ARGS__; }

// ---- tests without a list --------------------------------------------------------------------

// TEST(name) { ... }: run_all() runs all of them, in the order of the file.
static struct CMUnitTest listed[96];
static size_t num_listed;

#define TEST(name)                          TEST_AS(name, cmocka_unit_test(name))
#define TEST_IN_A_FOLDER(name)              TEST_AS(name, IN_A_FOLDER(name))
#define TEST_UNLESS_SIMULATED(name)         TEST_AS(name, UNLESS_SIMULATED(name))
#define TEST_ON_BOTH(name)                  TEST_AS(name, ON_BOTH(name))
#define TEST_ON_BOTH_UNLESS_SIMULATED(name) TEST_AS(name, ON_BOTH_UNLESS_SIMULATED(name))
#define TEST_AS(name, ...)                                                                         \
    CASE(name);                                                                                    \
    __attribute__((constructor)) static void list_##name(void) {                                   \
        const struct CMUnitTest entries[] = {__VA_ARGS__};                                         \
        assert_true(num_listed + COUNT(entries) <= COUNT(listed));                                 \
        memcpy(listed + num_listed, entries, sizeof entries);                                      \
        num_listed += COUNT(entries);                                                              \
    }                                                                                              \
    CASE(name)

static inline int run_all(const char *name, CMFixtureFunction begin, CMFixtureFunction end) {
    return _cmocka_run_group_tests(name, listed, num_listed, begin, end);
}

// ---- what must end the program ---------------------------------------------------------------

// DIES("words of the error", statements) is a row. Children of expect_deaths() run the statements,
// with CPU devices only: a GPU cannot be used on both sides of a fork.
static struct Death {
    const char *words;
    void (*die)(void *);
} deaths[64];
static size_t num_deaths;

#define DIES(WORDS, ...)                                                                           \
    static void JOIN(die_, __LINE__)(void *unused) {                                               \
        (void)unused;                                                                              \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    AT_START(deaths[num_deaths++] = (struct Death){WORDS, JOIN(die_, __LINE__)})

// DEATHS_FIRST, above all other tests: fork() copies no threads, so no device may be open.
static inline void expect_deaths(void **state) {
    (void)state;
    devices_close();
    devices_init(BACKEND_CPU, 1);
    assert_true(num_deaths > 0 && num_deaths <= COUNT(deaths));
    for (size_t i = 0; i < num_deaths; i++) expect_death(1, deaths[i].words, deaths[i].die, NULL);
    devices_close();
}

#define DEATHS_FIRST                                                                               \
    TEST_UNLESS_SIMULATED(mistakes_end_the_program) { expect_deaths(state); }
