// split_batch.h: a minibatch, split over the devices.
#ifndef SPLIT_BATCH_H
#define SPLIT_BATCH_H

#include "common/base/range.h"
#include "common/tensor/tensor.h"

// Copies rows of X (n, ...) and y (n), on the host, to the k devices: device i gets the rows
// equal_range(n, k, i). Shards are in the arenas of the devices, so they live until the next
// begin_step(). Enqueued, not waited for. die()s if X and y do not have the same number of rows.
void split_batch(const Tensor *X, const Tensor *y, Device *const devices[], int k,
                 Tensor *X_shards[], Tensor *y_shards[]);
// The same with unequal shards (exercise 05-2): device i gets shards[i]. Together they must be all
// rows, in order.
void split_batch_as(const Range shards[], const Tensor *X, const Tensor *y, Device *const devices[],
                    int k, Tensor *X_shards[], Tensor *y_shards[]);

// Some rows of `t`: the same memory, seen as a smaller tensor.
Tensor rows_of(const Tensor *t, Range rows);
// A copy of these rows, in the arena of the device. Enqueued, not waited for.
Tensor *rows_on(const Tensor *t, Range rows, Device *device);

#endif
