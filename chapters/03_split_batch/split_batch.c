// split_batch.c: copies runs of rows to the devices, into the memory that a step has.
#include "split_batch.h"

#include "common/book.h"

static void refuse_different_rows(const Tensor *X, const Tensor *y) {
    if (X->shape[0] != y->shape[0])
        die("X and y must have one row for each observation",
            "split_batch: X %s and y %s differ in rows", shape_text(X), shape_text(y));
}

void split_batch(const Tensor *X, const Tensor *y, Device *const devices[], int k,
                 Tensor *X_shards[], Tensor *y_shards[]) {
    refuse_different_rows(X, y);
    for (int i = 0; i < k; i++) {
        Range rows = equal_range(X->shape[0], k, i);
        X_shards[i] = rows_on(X, rows, devices[i]);
        y_shards[i] = rows_on(y, rows, devices[i]);
    }
}

void split_batch_as(const Range shards[], const Tensor *X, const Tensor *y, Device *const devices[],
                    int k, Tensor *X_shards[], Tensor *y_shards[]) {
    long rows = 0;
    refuse_different_rows(X, y);
    for (int i = 0; i < k; i++) {
        CHECK(shards[i].first == rows, "the shards are the rows of the minibatch, in order");
        X_shards[i] = rows_on(X, shards[i], devices[i]);
        y_shards[i] = rows_on(y, shards[i], devices[i]);
        rows += shards[i].count;
    }
    CHECK(rows == X->shape[0], "each row belongs to one shard");
}

// Rows are contiguous in memory, so a run of rows is one run of bytes.
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
