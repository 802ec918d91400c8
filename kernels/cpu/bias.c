// bias.c: adds a row vector to each row of a matrix; backward sums the rows. With several row
// vectors in turn (`parts`), so many neighbouring rows of the matrix are one long row.
#include "cpu.h"

#include <string.h>

CPU_KERNEL(add_bias_forward) {
    size_t cols = (size_t)a->cols, parts = (size_t)larger(a->parts, 1);
#pragma omp parallel for num_threads(lane->threads)                                                \
    schedule(static) if ((size_t)a->rows * (size_t)a->cols > PARALLEL_FLOATS)
    for (int row = 0; row < a->rows; row++) {
        const float *X = a->X + (size_t)row * cols, *b = a->b + (size_t)row % parts * cols;
        float *Y = a->Y + (size_t)row * cols;
        for (size_t col = 0; col < cols; col++) Y[col] = X[col] + b[col];
    }
}

// Long rows are added up as the tree that cpu.h describes. The last one may be incomplete.
CPU_KERNEL(add_bias_backward) {
    int parts = larger(a->parts, 1), rows = divide_up(a->rows, parts);
    SumTree tree = sum_tree_of(rows, a->groups);
    size_t cols = (size_t)parts * (size_t)a->cols, n = (size_t)a->rows * (size_t)a->cols;
    float *sums = cpu_scratch(lane, sizeof(float) * cols * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (n > PARALLEL_FLOATS)
    for (int group = 0; group < tree.groups; group++) {
        int first = group * tree.group, last = smaller(first + tree.group, rows);
        float *mine = sums + (size_t)group * cols;
        memset(mine, 0, sizeof(float) * cols);
        for (int row = first; row < last; row++) {
            const float *dY = a->dY + (size_t)row * cols;
            size_t length = row + 1 < rows ? cols : n - (size_t)row * cols;
            for (size_t col = 0; col < length; col++) mine[col] += dY[col];
        }
    }
    add_halves(sums, cols, tree.groups, cols);
    store_sums(a->db, sums, cols, a->beta);
}
