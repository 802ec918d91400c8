// attention.cu: attention and its gradient, a block of threads for each head of each sequence.
#include "grid.cuh"

// What a block reads again and again are the queries, keys and values of its head. So it copies
// them into shared memory first, where they fit. A larger head stays where it is, in QKV. (For long
// sequences there is FlashAttention: Dao et al., NeurIPS 2022. It never writes `probs`.)
constexpr size_t SHARED_BYTES = 48 << 10; // what every GPU gives to a block

// A row for each token: numbers d, d + 1, ... of token t begin at x + t * row + d.
struct Rows {
    const float *x;
    size_t row;
};

// Rows in shared memory have an odd length. So threads that read one number each, of 32
// neighbouring tokens, meet 32 different banks.
static __host__ __device__ size_t shared_row(size_t cols) { return cols | 1; }

// T rows of `cols` floats, copied to `to` unless that is NULL. All threads of the block must call
// this, and wait before they read the rows.
static __device__ struct Rows rows_of(const float *x, size_t row, size_t T, size_t cols,
                                      float *to) {
    if (!to) return {x, row};
    for (size_t i = threadIdx.x; i < T * cols; i += THREADS) {
        const size_t t = i / cols, d = i % cols;
        to[t * shared_row(cols) + d] = x[t * row + d];
    }
    return {to, shared_row(cols)};
}

static __device__ float dot(const float *x, const float *y, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

// Where a head begins in Y, of all N heads. In QKV it is three times this.
static __device__ size_t first_of(struct attention_shape s, size_t head) {
    return (head / s.heads * s.T * s.heads + head % s.heads) * s.width;
}

// ---- forward -----------------------------------------------------------------------------------

// Warp w does row w, w + 8, ... of the scores: as in cross_entropy.cu, the maximum ignores a NaN,
// but the sum does not. A thread reads only what it has written itself.
static __device__ void softmax_of_scores(struct Rows qkv, struct attention_shape s, float *probs) {
    const size_t T = s.T, width = s.width;
    const int thread = threadIdx.x % WARP;
    const float per_root = 1 / sqrtf(s.width);
    for (size_t i = threadIdx.x / WARP; i < T; i += THREADS / WARP) {
        const float *q = qkv.x + i * qkv.row, *k = qkv.x + width;
        float *row = probs + i * T, largest = -INFINITY, sum = 0;
        for (size_t j = thread; j < T; j += WARP) {
            row[j] = dot(q, k + j * qkv.row, width) * per_root;
            largest = fmaxf(largest, row[j]);
        }
        largest = warp_max(largest);
        for (size_t j = thread; j < T; j += WARP) sum += row[j] = expf(row[j] - largest);
        sum = warp_sum(sum);
        for (size_t j = thread; j < T; j += WARP) row[j] /= sum;
    }
}

static __global__ void attention_forward(struct attention_forward_args a, bool fits) {
    extern __shared__ float shared[];
    const struct attention_shape s = a.s;
    const size_t T = s.T, width = s.width, row = s.heads * width;
    for (size_t head = blockIdx.x; head < (size_t)s.N * s.heads; head += gridDim.x) {
        const size_t first = first_of(s, head);
        float *probs = a.probs + head * T * T;
        const struct Rows qkv =
            rows_of(a.QKV + 3 * first, 3 * row, T, 3 * width, fits ? shared : NULL);
        __syncthreads();
        softmax_of_scores(qkv, s, probs);
        __syncthreads();
        for (size_t at = threadIdx.x; at < T * width; at += THREADS) {
            const size_t i = at / width, d = at % width;
            const float *v = qkv.x + 2 * width + d;
            float sum = 0;
            for (size_t j = 0; j < T; j++) sum += probs[i * T + j] * v[j * qkv.row];
            a.Y[first + i * row + d] = sum;
        }
        __syncthreads(); // all have read it before the next head overwrites it
    }
}

CUDA_KERNEL(attention_forward) {
    const size_t heads = (size_t)a->s.N * a->s.heads;
    const size_t bytes = sizeof(float) * a->s.T * shared_row(3 * (size_t)a->s.width);
    const bool fits = bytes <= SHARED_BYTES;
    attention_forward<<<blocks_for(heads, 1), THREADS, fits ? bytes : 0, lane->stream>>>(*a, fits);
}

// ---- backward ----------------------------------------------------------------------------------

// dS (T,T), the gradients of the scores: probs (dP - the sum of probs dP over the row), where dP[j]
// = dY . v[j] is the gradient of a probability. A warp takes a row, as above.
static __device__ void gradients_of_scores(struct Rows qkv, struct Rows dY, const float *probs,
                                           struct attention_shape s, float *dS) {
    const size_t T = s.T, width = s.width;
    const int thread = threadIdx.x % WARP;
    const float per_root = 1 / sqrtf(s.width);
    for (size_t i = threadIdx.x / WARP; i < T; i += THREADS / WARP) {
        const float *v = qkv.x + 2 * width, *p = probs + i * T;
        float *row = dS + i * T, sum = 0;
        for (size_t j = thread; j < T; j += WARP) {
            row[j] = dot(dY.x + i * dY.row, v + j * qkv.row, width);
            sum += p[j] * row[j];
        }
        sum = warp_sum(sum);
        for (size_t j = thread; j < T; j += WARP) row[j] = p[j] * (row[j] - sum) * per_root;
    }
}

// Number d of token t: what reaches its query from the scores of row t, its key from those of
// column t, and its value from column t of probs.
static __device__ void add_gradients(struct Rows qkv, struct Rows dY, const float *probs,
                                     const float *dS, struct attention_shape s, float beta,
                                     float *dQKV) {
    const size_t T = s.T, width = s.width, row = 3 * s.heads * width;
    for (size_t at = threadIdx.x; at < T * width; at += THREADS) {
        const size_t t = at / width, d = at % width;
        float dq = 0, dk = 0, dv = 0;
        for (size_t u = 0; u < T; u++) {
            const float *q = qkv.x + u * qkv.row + d, *k = q + width;
            dq += dS[t * T + u] * *k;
            dk += dS[u * T + t] * *q;
            dv += probs[u * T + t] * dY.x[u * dY.row + d];
        }
        float *to = dQKV + t * row + d;
        to[0] = accumulate(beta, &to[0], dq);
        to[width] = accumulate(beta, &to[width], dk);
        to[2 * width] = accumulate(beta, &to[2 * width], dv);
    }
}

// The gradients of the scores lie in shared memory too, or in `scratch`, where each block has room
// for one head's.
static __global__ void attention_backward(struct attention_backward_args a, float *scratch) {
    extern __shared__ float shared[];
    const struct attention_shape s = a.s;
    const size_t T = s.T, width = s.width, row = s.heads * width;
    float *dS = scratch ? scratch + blockIdx.x * T * T : shared;
    float *qkv_copy = scratch ? NULL : shared + T * T;
    float *dY_copy = scratch ? NULL : qkv_copy + T * shared_row(3 * width);
    for (size_t head = blockIdx.x; head < (size_t)s.N * s.heads; head += gridDim.x) {
        const size_t first = first_of(s, head);
        const float *probs = a.probs + head * T * T;
        const struct Rows qkv = rows_of(a.QKV + 3 * first, 3 * row, T, 3 * width, qkv_copy);
        const struct Rows dY = rows_of(a.dY + first, row, T, width, dY_copy);
        __syncthreads();
        gradients_of_scores(qkv, dY, probs, s, dS);
        __syncthreads();
        add_gradients(qkv, dY, probs, dS, s, a.beta, a.dQKV + 3 * first);
        __syncthreads(); // all have read it before the next head overwrites it
    }
}

CUDA_KERNEL(attention_backward) {
    const size_t T = a->s.T, width = a->s.width;
    const unsigned blocks = blocks_for((size_t)a->s.N * a->s.heads, 1);
    const size_t bytes = sizeof(float) * T * (T + shared_row(3 * width) + shared_row(width));
    const bool fits = bytes <= SHARED_BYTES;
    float *scratch = fits ? NULL : (float *)cuda_scratch(lane, sizeof(float) * blocks * T * T);
    attention_backward<<<blocks, THREADS, fits ? bytes : 0, lane->stream>>>(*a, scratch);
}
