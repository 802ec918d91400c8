// layer_norm.c: gives each row mean 0 and variance 1, then a weight and a bias.
#include "cpu.h"
#include "fast/vector.h"

#include <math.h>
#include <string.h>

static inline bool is_large(int rows, int cols) {
    return (size_t)rows * (size_t)cols > PARALLEL_FLOATS;
}

// Deviations from the row's first number are small even if the numbers are large, so the sum loses
// no digits.
static float mean_of(const float *x, int n) {
    Vec sums = {0};
    int i = 0;
    for (; i + VL <= n; i += VL) sums += vec_at(x + i) - x[0];
    float sum = total_of(sums);
    for (; i < n; i++) sum += x[i] - x[0];
    return x[0] + sum / (float)n;
}

static float variance_of(const float *x, int n, float mean) {
    Vec sums = {0};
    int i = 0;
    for (; i + VL <= n; i += VL) {
        Vec d = vec_at(x + i) - mean;
        sums += d * d;
    }
    float sum = total_of(sums);
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum / (float)n;
}

static void forward_row(const struct layer_norm_forward_args *a, int row) {
    int cols = a->cols;
    const float *X = a->X + (size_t)row * (size_t)cols, *weight = a->weight, *bias = a->bias;
    float *Y = a->Y + (size_t)row * (size_t)cols, *stats = a->stats + 2 * (size_t)row;
    float mean = mean_of(X, cols), inverse = 1 / sqrtf(variance_of(X, cols, mean) + a->eps);
    for (int i = 0; i < cols; i += VL) {
        int n = cols - i;
        Vec xhat = (some_at(X + i, n) - mean) * inverse;
        some_to(Y + i, xhat * some_at(weight + i, n) + some_at(bias + i, n), n);
    }
    stats[0] = mean;
    stats[1] = inverse;
}

CPU_KERNEL(layer_norm_forward) {
    if (a->cols == 0) return;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (is_large(a->rows, a->cols))
    for (int row = 0; row < a->rows; row++) forward_row(a, row);
}

static void input_of_row(const struct layer_norm_backward_input_args *a, int row) {
    int cols = a->cols;
    size_t at = (size_t)row * (size_t)cols;
    const float *X = a->X + at, *dY = a->dY + at, *weight = a->weight;
    float *dX = a->dX + at, mean = a->stats[2 * (size_t)row],
          inverse = a->stats[2 * (size_t)row + 1];
    Vec sums = {0}, products = {0}; // of g; of g xhat. Beyond the end, g is 0.
    for (int i = 0; i < cols; i += VL) {
        Vec g = some_at(dY + i, cols - i) * some_at(weight + i, cols - i);
        sums += g;
        products += g * ((some_at(X + i, cols - i) - mean) * inverse);
    }
    float mean_g = total_of(sums) / (float)cols, slope = total_of(products) / (float)cols;
    for (int i = 0; i < cols; i += VL) {
        int n = cols - i;
        Vec g = some_at(dY + i, n) * some_at(weight + i, n);
        Vec xhat = (some_at(X + i, n) - mean) * inverse, d = (g - mean_g - xhat * slope) * inverse;
        some_to(dX + i, a->beta != 0 ? some_at(dX + i, n) + d : d, n);
    }
}

CPU_KERNEL(layer_norm_backward_input) {
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (is_large(a->rows, a->cols))
    for (int row = 0; row < a->rows; row++) input_of_row(a, row);
}

// Rows are added up as the tree that cpu.h describes. sums (2,cols): of dY xhat, and of dY.
static void sums_of_rows(const struct layer_norm_backward_params_args *a, int first, int last,
                         float *restrict sums) {
    size_t cols = (size_t)a->cols;
    memset(sums, 0, sizeof(float) * 2 * cols);
    for (int row = first; row < last; row++) {
        const float *restrict X = a->X + (size_t)row * cols, *restrict dY =
                                                                 a->dY + (size_t)row * cols;
        float mean = a->stats[2 * (size_t)row], inverse = a->stats[2 * (size_t)row + 1];
        for (size_t i = 0; i < cols; i++) {
            sums[i] += dY[i] * ((X[i] - mean) * inverse);
            sums[cols + i] += dY[i];
        }
    }
}

CPU_KERNEL(layer_norm_backward_params) {
    SumTree tree = sum_tree_of(a->rows, a->groups);
    size_t cols = (size_t)a->cols;
    float *sums = cpu_scratch(lane, sizeof(float) * 2 * cols * (size_t)tree.groups);
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (is_large(a->rows, a->cols))
    for (int group = 0; group < tree.groups; group++)
        sums_of_rows(a, group * tree.group, smaller((group + 1) * tree.group, a->rows),
                     sums + (size_t)group * 2 * cols);
    add_halves(sums, 2 * cols, tree.groups, 2 * cols);
    store_sums(a->dweight, sums, cols, a->beta);
    store_sums(a->dbias, sums + cols, cols, a->beta);
}
