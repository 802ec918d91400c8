// bias.c: adds a row vector to each row of a matrix; backward sums the rows.
#include "cpu.h"

#include <string.h>

CPU_KERNEL(add_bias_forward) {
#pragma omp parallel for num_threads(lane->threads)                                                \
    schedule(static) if ((size_t)a->rows * (size_t)a->cols > PARALLEL_FLOATS)
    for (int row = 0; row < a->rows; row++)
        for (int col = 0; col < a->cols; col++) {
            size_t i = (size_t)row * (size_t)a->cols + (size_t)col;
            a->Y[i] = a->X[i] + a->b[col];
        }
}

// Rows are added up as the tree that cpu.h describes.
CPU_KERNEL(add_bias_backward) {
    SumTree tree = sum_tree(a->rows);
    size_t cols = (size_t)a->cols;
    float *sums = cpu_scratch(lane, sizeof(float) * cols * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads)                                                \
    schedule(static) if ((size_t)a->rows * (size_t)a->cols > PARALLEL_FLOATS)
    for (int group = 0; group < tree.groups; group++) {
        int first = group * tree.group,
            last = first + tree.group < a->rows ? first + tree.group : a->rows;
        float *mine = sums + (size_t)group * cols;
        memset(mine, 0, sizeof(float) * cols);
        for (int row = first; row < last; row++)
            for (size_t col = 0; col < cols; col++) mine[col] += a->dY[(size_t)row * cols + col];
    }
    add_halves(sums, cols, tree.groups, cols);
    for (size_t col = 0; col < cols; col++)
        a->db[col] = a->beta != 0 ? a->db[col] + sums[col] : sums[col];
}
