// figures.h: PyTorch's figures, of a file of tests/reference, and how ours are compared with them.
#pragma once

#include "cases.h"

#include "common/data/safetensors.h"

static SafetensorsFile reference;

static inline int close_reference(void **state) {
    return safetensors_close(&reference), close_kept(state);
}

__attribute__((format(printf, 2, 3))) static inline const SafetensorsEntry *
find_part(bool must_be_there, const char *format, ...) {
    char key[128];
    va_list args;
    va_start(args, format);
    vsnprintf(key, sizeof key, format, args);
    va_end(args);
    const SafetensorsEntry *entry = safetensors_find(&reference, key);
    if (!entry && must_be_there)
        fail_msg("the file lacks %s: make it again (tests/reference)", key);
    return entry;
}
#define part(...) find_part(true, __VA_ARGS__)

// Written so that a NaN fails, on either side.
static inline void check(const char *what, size_t i, double ours, double theirs, double allowed) {
    if (!(fabs(ours - theirs) <= allowed))
        fail_msg("%s[%zu] is %.9g, PyTorch has %.9g (allowed difference %.1e)", what, i, ours,
                 theirs, allowed);
}

static inline double largest_of(const float *values, size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

// A gradient over so many rows: its norm, and all of it or (of large ones) some elements. Each may
// be wrong by `relative` of itself, or by `absolute`.
static inline void check_gradient(const char *prefix, const Tensor *grad, const char *name,
                                  double rows, double relative, double absolute) {
    const SafetensorsEntry *norm = part("%s%s.norm", prefix, name);
    const SafetensorsEntry *index = find_part(false, "%s%s.index", prefix, name);
    const SafetensorsEntry *some = part(index ? "%s%s.value" : "%s%s", prefix, name);
    const float *ours = values_of(grad);
    double squares = 0;
    for (size_t i = 0; i < numel(grad); i++) squares += (double)ours[i] * (double)ours[i];
    check(norm->name, 0, sqrt(squares) / rows, (double)norm->values[0],
          fmax(relative * (double)norm->values[0], absolute));
    assert_true(some->count > 0 && (index || some->count == numel(grad)));
    for (size_t i = 0; i < some->count; i++) {
        size_t at = index ? (size_t)index->values[i] : i;
        double theirs = (double)some->values[i];
        assert_true(at < numel(grad));
        check(some->name, at, (double)ours[at] / rows, theirs,
              fmax(relative * fabs(theirs), absolute));
    }
}
