// layer_norm.cu: layer normalisation.
#include "grid.cuh"

// ---- one warp per row --------------------------------------------------------------------------

constexpr int ROWS_PER_BLOCK = THREADS / WARP;

// Runs through this warp's rows, and through this thread's numbers of a row; i is their index.
#define ROW_LOOP(row, rows)                                                                        \
    for (size_t row = blockIdx.x * (size_t)ROWS_PER_BLOCK + threadIdx.x / WARP; row < (rows);      \
         row += gridDim.x * (size_t)ROWS_PER_BLOCK)
#define COL_LOOP(i, j, row, cols)                                                                  \
    for (size_t j = threadIdx.x % WARP, i = (row) * (cols) + j; j < (cols); j += WARP, i += WARP)

// As in batch_norm.cu, the deviations come from a second look at the numbers, since differences of
// large sums would lose digits.
static __global__ void layer_norm_forward(struct layer_norm_forward_args a) {
    const size_t cols = a.cols;
    ROW_LOOP(row, a.rows) {
        float sum = 0, squares = 0;
        COL_LOOP(i, j, row, cols) sum += a.X[i];
        const float mean = warp_sum(sum) / cols;
        COL_LOOP(i, j, row, cols) squares += (a.X[i] - mean) * (a.X[i] - mean);
        const float inverse = 1 / sqrtf(warp_sum(squares) / cols + a.eps);
        COL_LOOP(i, j, row, cols) a.Y[i] = a.weight[j] * ((a.X[i] - mean) * inverse) + a.bias[j];
        if (threadIdx.x % WARP != 0) continue;
        a.stats[2 * row] = mean;
        a.stats[2 * row + 1] = inverse;
    }
}

CUDA_KERNEL(layer_norm_forward) {
    layer_norm_forward<<<blocks_for(a->rows, ROWS_PER_BLOCK), THREADS, 0, lane->stream>>>(*a);
}

static __global__ void layer_norm_backward_input(struct layer_norm_backward_input_args a) {
    const size_t cols = a.cols;
    ROW_LOOP(row, a.rows) {
        const float mean = a.stats[2 * row], inverse = a.stats[2 * row + 1];
        float sum = 0, product = 0;
        COL_LOOP(i, j, row, cols) {
            const float g = a.weight[j] * a.dY[i];
            sum += g;
            product += g * ((a.X[i] - mean) * inverse);
        }
        const float mean_g = warp_sum(sum) / cols, mean_product = warp_sum(product) / cols;
        COL_LOOP(i, j, row, cols) {
            const float xhat = (a.X[i] - mean) * inverse;
            const float d = a.weight[j] * a.dY[i] - mean_g - xhat * mean_product;
            a.dX[i] = accumulate(a.beta, &a.dX[i], d * inverse);
        }
    }
}

CUDA_KERNEL(layer_norm_backward_input) {
    layer_norm_backward_input<<<blocks_for(a->rows, ROWS_PER_BLOCK), THREADS, 0, lane->stream>>>(
        *a);
}

// ---- sums of columns ---------------------------------------------------------------------------

// As in bias.cu: 32 neighbouring columns for a block, 8 threads for each column.
constexpr int COLUMNS = WARP, HELPERS = THREADS / WARP;

struct Sums {
    float weight, bias;
};

static __global__ void layer_norm_backward_params(struct layer_norm_backward_params_args a) {
    __shared__ struct Sums parts[HELPERS][COLUMNS];
    const int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    for (size_t first = blockIdx.x * (size_t)COLUMNS; first < a.cols;
         first += gridDim.x * (size_t)COLUMNS) {
        const size_t column = first + x;
        struct Sums sums = {0, 0};
        for (size_t row = y; row < a.rows && column < a.cols; row += HELPERS) {
            const size_t i = row * a.cols + column;
            sums.weight += a.dY[i] * ((a.X[i] - a.stats[2 * row]) * a.stats[2 * row + 1]);
            sums.bias += a.dY[i];
        }
        parts[y][x] = sums;
        __syncthreads();
        if (y == 0 && column < a.cols) {
            for (int helper = 1; helper < HELPERS; helper++) {
                sums.weight += parts[helper][x].weight;
                sums.bias += parts[helper][x].bias;
            }
            a.dweight[column] = accumulate(a.beta, &a.dweight[column], sums.weight);
            a.dbias[column] = accumulate(a.beta, &a.dbias[column], sums.bias);
        }
        __syncthreads(); // the parts are read before the next 32 columns overwrite them
    }
}

CUDA_KERNEL(layer_norm_backward_params) {
    layer_norm_backward_params<<<blocks_for(a->cols, COLUMNS), THREADS, 0, lane->stream>>>(*a);
}
