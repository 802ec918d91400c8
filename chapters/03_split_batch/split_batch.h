// split_batch.h: a minibatch, split over the devices. Call split_batch() after begin_step() on each
// device; do not free the shards.
#pragma once

#include "common/base/range.h"
#include "common/tensor/tensor.h"

// Copies rows of X (n, ...) and y (n) from the host: device i gets the rows equal_range(n, k, i).
// Shards live until the next begin_step(). Enqueued, not waited for. die()s if X and y differ in
// rows.
void split_batch(const Tensor *X, const Tensor *y, Device *const devices[], int k,
                 Tensor *X_shards[], Tensor *y_shards[]);
// The same with any shards that together are all rows, in order (exercise 05-2).
void split_batch_as(const Range shards[], const Tensor *X, const Tensor *y, Device *const devices[],
                    int k, Tensor *X_shards[], Tensor *y_shards[]);

// Some rows of `t`: the same memory, seen as a smaller tensor.
Tensor rows_of(const Tensor *t, Range rows);
// A copy of these rows on the device, made as a shard is.
Tensor *rows_on(const Tensor *t, Range rows, Device *device);
