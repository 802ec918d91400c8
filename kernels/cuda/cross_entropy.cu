// cross_entropy.cu: the loss of each row, its gradient, and how many rows are right.
#include "grid.cuh"

constexpr int ROWS_PER_BLOCK = THREADS / WARP;

// The class that a label names, or -1 if there is no such class.
static __device__ int class_of(float label, int classes) {
    return label >= 0 && label < classes ? (int)label : -1;
}

// One warp per row. Its threads read neighbouring logits, and exchange the maximum and the sum
// through registers. As the maximum is subtracted, exp() cannot overflow and the sum is at least 1.
// The maximum ignores a NaN but the sum does not, so the loss is NaN, as it should be.
static __global__ void cross_entropy_forward(struct cross_entropy_forward_args a) {
    const int thread = threadIdx.x % WARP;
    for (size_t row = blockIdx.x * (size_t)ROWS_PER_BLOCK + threadIdx.x / WARP; row < a.rows;
         row += gridDim.x * (size_t)ROWS_PER_BLOCK) {
        const float *logits = a.logits + row * a.classes;
        float largest = -INFINITY, sum = 0;
        for (int j = thread; j < a.classes; j += WARP) largest = fmaxf(largest, logits[j]);
        largest = warp_max(largest);
        for (int j = thread; j < a.classes; j += WARP) sum += expf(logits[j] - largest);
        sum = warp_sum(sum);
        for (int j = thread; j < a.classes; j += WARP)
            a.probs[row * a.classes + j] = expf(logits[j] - largest) / sum;
        // -log(exp(x - largest) / sum), without the exp() that could become 0
        const int label = class_of(a.labels[row], a.classes);
        if (thread == 0) a.losses[row] = label < 0 ? NAN : logf(sum) - (logits[label] - largest);
    }
}

CUDA_KERNEL(cross_entropy_forward) {
    cross_entropy_forward<<<blocks_for(a->rows, ROWS_PER_BLOCK), THREADS, 0, lane->stream>>>(*a);
}

static __global__ void cross_entropy_backward(struct cross_entropy_backward_args a, unsigned n,
                                              struct Divisor classes) {
    INDEX_LOOP(i, n) {
        const auto [row, j] = split(i, classes);
        const float onehot = (int)j == class_of(a.labels[row], a.classes);
        a.dlogits[i] = accumulate(a.beta, &a.dlogits[i], a.dlosses[row] * (a.probs[i] - onehot));
    }
}

CUDA_KERNEL(cross_entropy_backward) {
    const unsigned n = index_count((size_t)a->rows * a->classes);
    cross_entropy_backward<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n, divisor(a->classes));
}

// Whether logits[label] is the first of the largest: all before it are smaller, and none after it
// is larger. A comparison with NaN is false.
static __device__ bool is_correct(const float *logits, int label, int classes) {
    if (label < 0) return false;
    for (int j = 0; j < classes; j++) {
        if (j < label && !(logits[j] < logits[label])) return false;
        if (j >= label && !(logits[j] <= logits[label])) return false;
    }
    return true;
}

// One block, since the rows of a minibatch are few. Whole numbers are exact in any order.
static __global__ void count_correct(struct count_correct_args a) {
    float correct = 0;
    for (int row = threadIdx.x; row < a.rows; row += THREADS)
        correct += is_correct(a.logits + row * (size_t)a.classes,
                              class_of(a.labels[row], a.classes), a.classes);
    correct = block_sum(correct);
    if (threadIdx.x == 0) a.count[0] += correct;
}

CUDA_KERNEL(count_correct) { count_correct<<<1, THREADS, 0, lane->stream>>>(*a); }
