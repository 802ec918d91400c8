// batch_norm.cu: batch normalisation, in the steps that kernels.h lists.
#include "grid.cuh"

// ---- sums over a channel: a block each -------------------------------------------------------

// Thread t of a block takes the channel's numbers t, t + THREADS, ...: number i is pixel i % S of
// image i / S. These two are carried along, because dividing takes longer than all else that is
// done with a number.
struct Place {
    size_t image;
    int pixel;
};

static __device__ struct Place first_place(int S) {
    if (S == 0) return {SIZE_MAX, 0}; // behind all images
    return {threadIdx.x / (size_t)S, (int)threadIdx.x % S};
}

static __device__ struct Place next_place(struct Place p, int S) {
    p.image += THREADS / S;
    p.pixel += THREADS % S;
    if (p.pixel < S) return p;
    return {p.image + 1, p.pixel - S};
}

// Runs through this thread's numbers of channel c; i is where they are.
#define CHANNEL_LOOP(i, a, c)                                                                      \
    for (struct Place p_ = first_place((a).S); p_.image < (size_t)(a).N;                           \
         p_ = next_place(p_, (a).S))                                                               \
        for (size_t i = (p_.image * (a).C + (c)) * (a).S + p_.pixel, once_ = 1; once_; once_ = 0)

// Twice through the channel, since sum(x^2) - sum(x)^2 / count would lose all digits where the mean
// is large against the deviations. Deviations from the true mean have the sum 0; the sum of ours
// tells by how much rounding moved the mean, and both results are corrected by it.
static __global__ void batch_norm_stats(struct batch_norm_stats_args a) {
    const float count = (float)a.N * (float)a.S, divisor = count > 0 ? count : 1;
    for (int c = blockIdx.x; c < a.C; c += gridDim.x) {
        float total = 0, off = 0, squares = 0;
        CHANNEL_LOOP(i, a, c) total += a.X[i];
        const float mean = block_sum(total) / divisor;
        CHANNEL_LOOP(i, a, c) {
            const float d = a.X[i] - mean;
            off += d;
            squares += d * d;
        }
        off = block_sum(off);
        const float M2 = block_sum(squares) - off * (off / divisor);
        if (threadIdx.x != 0) continue;
        a.stats[c] = mean + off / divisor;
        a.stats[a.C + c] = M2 < 0 ? 0 : M2; // a NaN stays
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) a.stats[2 * (size_t)a.C] = count;
}

CUDA_KERNEL(batch_norm_stats) {
    batch_norm_stats<<<blocks_for(a->C, 1), THREADS, 0, lane->stream>>>(*a);
}

static __global__ void batch_norm_backward_sums(struct batch_norm_backward_sums_args a) {
    for (int c = blockIdx.x; c < a.C; c += gridDim.x) {
        const float mean = a.mean[c];
        float sum = 0, product = 0;
        CHANNEL_LOOP(i, a, c) {
            sum += a.dY[i];
            product += a.dY[i] * (a.X[i] - mean);
        }
        sum = block_sum(sum);
        product = block_sum(product);
        if (threadIdx.x != 0) continue;
        a.sums[c] = sum;
        a.sums[a.C + c] = product / sqrtf(a.var[c] + a.eps);
    }
}

CUDA_KERNEL(batch_norm_backward_sums) {
    batch_norm_backward_sums<<<blocks_for(a->C, 1), THREADS, 0, lane->stream>>>(*a);
}

// ---- the moments of all devices: a thread per channel ----------------------------------------

struct Moments {
    double mean, M2, count; // M2: the sum of the squared deviations from the mean
};

// Of two sets together, by Chan's formula: the last term is there because each set's deviations are
// from its own mean.
static __device__ struct Moments merge(struct Moments a, struct Moments b) {
    if (b.count == 0) return a;
    const double count = a.count + b.count, part = b.count / count, delta = b.mean - a.mean;
    return {a.mean + delta * part, a.M2 + b.M2 + delta * delta * a.count * part, count};
}

static __global__ void batch_norm_merge(struct batch_norm_merge_args a) {
    const size_t C = a.C, stride = 2 * C + 1;
    GRID_LOOP(c, C) {
        struct Moments all = {0, 0, 0};
        for (int i = 0; i < a.k; i++) {
            const float *s = a.stats + i * stride;
            all = merge(all, {s[c], s[C + c], s[2 * C]});
        }
        a.mean[c] = (float)all.mean;
        a.var[c] = (float)(all.count > 0 ? all.M2 / all.count : 0);
        const float keep = 1 - a.momentum;
        if (a.running_mean && all.count > 0)
            a.running_mean[c] = keep * a.running_mean[c] + a.momentum * a.mean[c];
        if (a.running_var && all.count > 1)
            a.running_var[c] =
                keep * a.running_var[c] + a.momentum * (float)(all.M2 / (all.count - 1));
    }
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    double total = 0;
    for (int i = 0; i < a.k; i++) total += a.stats[i * stride + 2 * C];
    a.count[0] = (float)total;
}

CUDA_KERNEL(batch_norm_merge) {
    batch_norm_merge<<<blocks_for(a->C), THREADS, 0, lane->stream>>>(*a);
}

// ---- elementwise: a thread per number --------------------------------------------------------

// (X - mean) first: X scale + (bias - mean scale) would save an operation and lose the digits that
// X and a large mean have in common.
static __global__ void batch_norm_forward(struct batch_norm_forward_args a, size_t n) {
    GRID_LOOP(i, n) {
        const int c = i / a.S % a.C;
        const float scale = a.weight[c] / sqrtf(a.var[c] + a.eps);
        a.Y[i] = (a.X[i] - a.mean[c]) * scale + a.bias[c];
    }
}

CUDA_KERNEL(batch_norm_forward) {
    const size_t n = (size_t)a->N * a->C * a->S;
    batch_norm_forward<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n);
}

static __global__ void batch_norm_backward_input(struct batch_norm_backward_input_args a,
                                                 size_t n) {
    GRID_LOOP(i, n) {
        const int c = i / a.S % a.C;
        const float inverse = 1 / sqrtf(a.var[c] + a.eps);
        float d = a.dY[i];
        if (a.sums) {
            const float xhat = (a.X[i] - a.mean[c]) * inverse;
            d -= (a.sums[c] + xhat * a.sums[a.C + c]) / *a.count;
        }
        a.dX[i] = accumulate(a.beta, &a.dX[i], a.weight[c] * inverse * d);
    }
}

CUDA_KERNEL(batch_norm_backward_input) {
    const size_t n = (size_t)a->N * a->C * a->S;
    batch_norm_backward_input<<<blocks_for(n), THREADS, 0, lane->stream>>>(*a, n);
}
