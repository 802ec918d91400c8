// copy_columns.cu: copies some neighbouring columns of one matrix into another, one thread per
// number. Neighbouring threads copy neighbouring numbers of a row, so that memory is read and
// written in whole lines, except at the ends of a row.
#include "grid.cuh"

static __global__ void copy_columns(struct copy_columns_args a, size_t n) {
    GRID_LOOP(i, n) {
        const size_t row = i / a.cols, col = i % a.cols;
        a.Y[row * a.Y_stride + col] = a.X[row * a.X_stride + col];
    }
}

CUDA_KERNEL(copy_columns) {
    const size_t n = (size_t)a->rows * a->cols;
    copy_columns<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n);
}
