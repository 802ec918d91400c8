// compare.h: a run of chapter 4 when it is over, and what two of them have in common.
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/program/training.h"

typedef struct Result {
    Training t;             // devices, minibatches, accuracy, times
    uint64_t bytes_between; // that crossed between devices, in all steps
    float *params;          // where it ended: all parameters, one behind the other; free() it
    size_t num_params;      // how many floats these are
} Result;

// "training on [cpu:0]: batch size 256, lr 0.2, 2350 minibatches"
void print_run(const Training *t, int images, int batch_size);

// Reads the parameters where they are, and CHECK()s that the ledger has the formula's bytes.
Result result_of(const Training *t, Tensor *const params[], int num_params);

// Whether both ended with the same parameters, to the last bit.
bool equal_to_the_bit(const Result *one, const Result *two);

// A line each: parameters, bytes, and the measured time if it is not noise. Without values, only
// bytes.
void print_comparison(const Result *one, const Result *two);

#endif
