// modelled.c: the chapter with --backend model. Rows are counted, not compared, and gradients are
// computed for their time alone, which --timeline draws.
#include "behind.h"

#include "common/book.h"

void split_without_values(const Tensor *X, const Tensor *y, Tensor *const params[2], int only_rows,
                          int k) {
    Table t = table_of_sizes();
    int rows = only_rows ? only_rows : X->shape[0];
    if (only_rows) {
        print_sizes(&t, only_rows, k);
    } else {
        print_sizes(&t, 256, 2);
        print_sizes(&t, 96, 7);
        print_sizes(&t, 3, 4);
    }
    free(gradients_of_shards(X, y, rows, 1, params));
    free(gradients_of_shards(X, y, rows, k, params));
}
