// checks.h: something to split, and whether it was split as it should be.
#ifndef CHECKS_H
#define CHECKS_H

#include "common/program/table.h"
#include "common/tensor/tensor.h"

// 0, 1, 2, ... in the given shape, on the host. With cols 0 it is a vector.
Tensor *arange(int rows, int cols);

// Opens devices 0..k-1 and begins a step on them.
void open_step(Device *devices[], int k);

// Checks that each row is there once, in order, and that X and y are split alike. Waits.
void check_shards(const Tensor *X, const Tensor *y, Tensor *const X_shards[],
                  Tensor *const y_shards[], int k);

// Splits n rows over k devices and checks the shards. A row of the table: n, k, their sizes.
void print_sizes(Table *t, int n, int k);

// Compares two gradients from k devices with the gradient from one. The first must be right, the
// second exactly if k divides n. A row of the table: n, k, both errors; none if the devices have no
// values. Returns the second error.
double print_errors(Table *t, int n, int k, const float one[], const float summed[],
                    const float averaged[]);

#endif
