// split_batch.h: a minibatch, split over the devices. Book: "Multiple GPUs", section "Distributing
// Data".
#ifndef SPLIT_BATCH_H
#define SPLIT_BATCH_H

#include "common/base/range.h"
#include "common/tensor/tensor.h"

// Some rows of `t`: its own memory, seen as a smaller tensor.
Tensor rows_of(const Tensor *t, Range rows);

// A copy of them, in the arena of the device. Enqueued, not waited for.
Tensor *rows_on(const Tensor *t, Range rows, Device *device);

// Copies rows of X (n, ...) and y (n), on the host, to the k devices: device i gets those of
// equal_range(n, k, i). X_shards[i] and y_shards[i] are in the arena of devices[i], so they live
// until its next begin_step(). Enqueued, not waited for. die()s if X and y do not have the same
// number of rows.
void split_batch(const Tensor *X, const Tensor *y, Device *const devices[], int k,
                 Tensor *X_shards[], Tensor *y_shards[]);

// The same with other shards than equal ones: device i gets shards[i] (exercise 05-2). Together
// they are to be all rows, in order.
void split_batch_as(const Range shards[], const Tensor *X, const Tensor *y, Device *const devices[],
                    int k, Tensor *X_shards[], Tensor *y_shards[]);

#endif
