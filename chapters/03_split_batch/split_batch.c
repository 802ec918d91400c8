// split_batch.c: each device gets a run of rows of X and the same run of y. (The book leaves the
// splitting to PyTorch's `scatter`: chapters/in_pytorch.md.)
#include "split_batch.h"

#include "common/tensor/autograd.h"
#include "common/base/error.h"

// Rows are the first dimension and lie one behind the other, so a run of rows is one run of bytes.
Tensor rows_of(const Tensor *t, Range rows) {
    Tensor part = *t;
    size_t row = 1;
    for (int i = 1; i < t->ndim; i++) row *= (size_t)t->shape[i];
    if (t->data) part.data += (size_t)rows.first * row;
    part.shape[0] = (int)rows.count;
    return part;
}

Tensor *rows_on(const Tensor *t, Range rows, Device *device) {
    const Tensor from = rows_of(t, rows);
    Tensor *there = arena_tensor(device, from.ndim, from.shape, false);
    tensor_copy(there, &from);
    return there;
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
        X_shards[i] = rows_on(X, shards[i], devices[i]);
        y_shards[i] = rows_on(y, shards[i], devices[i]);
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
