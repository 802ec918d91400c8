// checks.h: something to split, and whether it was split as it should be.
#ifndef CHECKS_H
#define CHECKS_H

#include "common/program/table.h"
#include "common/tensor/tensor.h"

// 0, 1, 2, ... in the given shape, on the host. With cols 0 it is a vector.
Tensor *arange(int rows, int cols);

// Opens devices 0..k-1 and begins a step on them.
void open_step(Device *devices[], int k);

// Checks that all rows are there, each once and in order, and X and y split alike. Waits.
void check_shards(const Tensor *X, const Tensor *y, Tensor *const X_shards[],
                  Tensor *const y_shards[], int k);

// Splits n rows over k devices and checks them. A row of the table: n, k, the sizes.
void print_sizes(Table *t, int n, int k);

// Two gradients from k devices against the gradient from one. A row of the table: n, k, the error
// of each. The first must be right, the second if and only if k divides n. Returns the second
// error. Without values (--backend model) there is no row.
double print_errors(Table *t, int n, int k, const float one[], const float summed[],
                    const float averaged[]);

#endif
