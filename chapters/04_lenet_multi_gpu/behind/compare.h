// compare.h: what a training prints before it begins, and what two are compared by.
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/program/training.h"

// "training on [cpu:0]: batch size 256, lr 0.2, 2350 minibatches"; there are this many images.
void print_run(const Training *t, int images);

// What is known of a training when it is over.
typedef struct Result {
    Training t;              // devices, minibatches, accuracy, times
    uint64_t bytes_per_step; // that crossed between devices
    float *params;           // where it ended: all parameters, one after the other; free() it
    size_t num_params;       // how many floats that is
} Result;

// Copies the parameters of a device to `trained`, on the host. die()s if the bytes that crossed
// between the devices since ledger_reset() differ from an allreduce's formula.
Result result_of(const Training *t, Tensor *const device_params[], Tensor *const trained[]);

// Whether both ended with the same parameters, to the last bit.
bool equal_to_the_bit(const Result *one, const Result *two);

// Four lines: accuracies, parameters, bytes and times. Only the bytes if there are no values.
void print_comparison(const Result *one, const Result *two);

#endif
