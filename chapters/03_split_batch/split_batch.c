// split_batch.c: each device gets a run of rows of X and the same run of y. The book's function
// leaves the splitting to PyTorch's `scatter`:
//
// ```python
// def split_batch(X, y, devices):
//     """Split `X` and `y` into multiple devices."""
//     assert X.shape[0] == y.shape[0]
//     return (nn.parallel.scatter(X, devices),
//             nn.parallel.scatter(y, devices))
// ```
#include "split_batch.h"

#include "common/tensor/autograd.h"
#include "common/base/error.h"

#include <string.h>

// Rows are the first dimension and lie one behind the other, so a run of rows is one run of bytes.
static Tensor *send_rows(const Tensor *t, Range shard, Device *device) {
    int shape[MAX_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    size_t row = 1;
    for (int i = 1; i < t->ndim; i++) row *= (size_t)shape[i];
    shape[0] = (int)shard.count;
    Tensor *rows = arena_tensor(device, t->ndim, shape, false);
    const float *from = t->data ? t->data + (size_t)shard.first * row : NULL;
    device_copy(device, rows->data, t->device, from, tensor_bytes(rows));
    return rows;
}

// Any shards will do, as long as together they are all rows, in order. Exercise 2 of chapter 5
// gives more rows to faster devices.
void split_batch_as(const Range shards[], const Tensor *X, const Tensor *y, Device *const devices[],
                    int k, Tensor *X_shards[], Tensor *y_shards[]) {
    long rows = 0;
    if (X->shape[0] != y->shape[0])
        die("X and y must have one row for each observation",
            "split_batch: X %s and y %s differ in rows", shape_text(X), shape_text(y));
    for (int i = 0; i < k; i++) {
        CHECK(shards[i].first == rows, "the shards are the rows of the minibatch, in order");
        X_shards[i] = send_rows(X, shards[i], devices[i]);
        y_shards[i] = send_rows(y, shards[i], devices[i]);
        rows += shards[i].count;
    }
    CHECK(rows == X->shape[0], "each row belongs to one shard");
}

// The book's split_batch(): shards that are as equal as can be.
void split_batch(const Tensor *X, const Tensor *y, Device *const devices[], int k,
                 Tensor *X_shards[], Tensor *y_shards[]) {
    Range shards[MAX_DEVICES];
    for (int i = 0; i < k; i++) shards[i] = equal_range(X->shape[0], k, i);
    split_batch_as(shards, X, y, devices, k, X_shards, y_shards);
}
