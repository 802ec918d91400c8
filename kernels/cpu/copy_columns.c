// copy_columns.c: copies some neighbouring columns of one matrix into another, with one memcpy()
// for each row.
#include "cpu.h"

#include <string.h>

CPU_KERNEL(copy_columns) {
    if (a->cols == 0) return;
    size_t bytes = sizeof(float) * (size_t)a->cols, n = (size_t)a->rows * (size_t)a->cols;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (n > PARALLEL_FLOATS)
    for (int row = 0; row < a->rows; row++)
        memcpy(a->Y + (size_t)row * (size_t)a->Y_stride, a->X + (size_t)row * (size_t)a->X_stride,
               bytes);
}
