// compare.h: what there is to say about two runs, in words and with their own figures.
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/program/training.h"

// What is known of a run when it is over.
typedef struct Result {
    Training t;             // devices, minibatches, accuracy, times
    uint64_t bytes_between; // that crossed between devices, in all steps
    float *params;          // where it ended: all parameters, one behind the other; free() it
    size_t num_params;      // how many floats those are
} Result;

// The bytes that an allreduce of all gradients moves in one step, whichever algorithm it is.
uint64_t bytes_per_step(const Result *r);

// Whether both ended with the same parameters, to the last bit.
bool equal_to_the_bit(const Result *one, const Result *two);

// "What the comparison shows": the accuracies, the times and the bytes, and why. Of runs without
// values, only times and bytes. Returns what compare_epochs() does; NAN without values.
double explain(const Result *one, const Result *two);

#endif
