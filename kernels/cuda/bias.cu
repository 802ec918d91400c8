// bias.cu: adds one bias per column, or one of several rows of them, and their gradient.
#include "grid.cuh"

// b as one row: `parts` rows of X together have one bias per column again.
static int bias_cols(int parts, int cols) { return parts > 1 ? parts * cols : cols; }

static __global__ void add_bias_forward(struct add_bias_forward_args a, unsigned n,
                                        struct Divisor cols) {
    INDEX_LOOP(i, n) a.Y[i] = a.X[i] + a.b[split(i, cols).rest];
}

CUDA_KERNEL(add_bias_forward) {
    const unsigned n = index_count((size_t)a->rows * a->cols);
    add_bias_forward<<<blocks_for(n), THREADS, 0, lane->stream>>>(
        *a, n, divisor(bias_cols(a->parts, a->cols)));
}

// The sum of each column. One thread per column would be simple, but 10 columns would occupy only
// 10 threads. One block per column would read memory with a stride. So a block takes 32
// neighbouring columns, with 8 threads for each. Thread (x, y) adds rows y, y + 8, ... of column x,
// then thread (x, 0) adds the 8 parts in order. (The last row may end early.)
constexpr int COLUMNS = WARP, HELPERS = THREADS / WARP;

static __global__ void add_bias_backward(struct add_bias_backward_args a, size_t n, size_t cols) {
    __shared__ float parts[HELPERS][COLUMNS];
    const int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    for (size_t first = blockIdx.x * (size_t)COLUMNS; first < cols;
         first += gridDim.x * (size_t)COLUMNS) {
        const size_t column = first + x;
        float sum = 0;
        if (column < cols)
            for (size_t i = y * cols + column; i < n; i += HELPERS * cols) sum += a.dY[i];
        parts[y][x] = sum;
        __syncthreads();
        if (y == 0 && column < cols) {
            for (int helper = 1; helper < HELPERS; helper++) sum += parts[helper][x];
            a.db[column] = accumulate(a.beta, &a.db[column], sum);
        }
        __syncthreads(); // the parts are read before the next 32 columns overwrite them
    }
}

CUDA_KERNEL(add_bias_backward) {
    const size_t n = (size_t)a->rows * a->cols, cols = bias_cols(a->parts, a->cols);
    add_bias_backward<<<blocks_for(cols, COLUMNS), THREADS, 0, lane->stream>>>(*a, n, cols);
}
