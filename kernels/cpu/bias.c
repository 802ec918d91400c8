// bias.c: add a row vector to each row of a matrix; backward sums the rows.
#include "cpu.h"

CPU_KERNEL(add_bias_forward) {
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (a->rows * a->cols > PARALLEL_FLOATS)
    for (int row = 0; row < a->rows; row++)
        for (int col = 0; col < a->cols; col++) {
            size_t i = (size_t)row * (size_t)a->cols + (size_t)col;
            a->Y[i] = a->X[i] + a->b[col];
        }
}

// Each column is summed in double from the first row to the last, by one thread.
CPU_KERNEL(add_bias_backward) {
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (a->rows * a->cols > PARALLEL_FLOATS)
    for (int col = 0; col < a->cols; col++) {
        double total = 0;
        for (int row = 0; row < a->rows; row++) total += a->dY[(size_t)row * (size_t)a->cols + (size_t)col];
        a->db[col] = (float)(a->beta != 0 ? a->db[col] + total : total);
    }
}
