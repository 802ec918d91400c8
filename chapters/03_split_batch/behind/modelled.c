// modelled.c: the chapter with --backend model. Rows are counted, not compared, and gradients are
// computed for their time alone, which --timeline draws.
#include "behind.h"

#include "common/book.h"
#include "../split_batch.h"

static void count_rows(Table *t, int n, int k) {
    Tensor *X = arange(n, 3), *y = arange(n, 0), *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    Device *devices[MAX_DEVICES];
    open_step(devices, k);
    split_batch(X, y, devices, k, X_shards, y_shards);
    add_sizes(t, n, k, X_shards);
    tensor_free(X);
    tensor_free(y);
}

void split_without_values(const Tensor *X, const Tensor *y, Tensor *const params[2], int only_rows,
                          int k) {
    Table t = table_of_sizes();
    int rows = only_rows ? only_rows : X->shape[0];
    if (only_rows) {
        count_rows(&t, only_rows, k);
    } else {
        count_rows(&t, 256, 2);
        count_rows(&t, 96, 7);
        count_rows(&t, 3, 4);
    }
    free(gradients_of_shards(X, y, rows, 1, params));
    free(gradients_of_shards(X, y, rows, k, params));
}
