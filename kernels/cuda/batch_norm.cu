// batch_norm.cu: batch normalisation, in the steps that kernels.h lists.
#include "grid.cuh"

// ---- moments: a block for each part of a channel ---------------------------------------------

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

// parts (parts,C). Twice through the numbers, since sum(x^2) - sum(x)^2 / count would lose all
// digits where the mean is large against the deviations; the second time they come from the cache.
// Deviations from the true mean have the sum 0; the sum of ours tells by how much rounding moved
// the mean, and both results are corrected by it.
static __global__ void moments_of_parts(const float *X, struct Channels ch, struct Moments *parts) {
    const unsigned begin = blockIdx.y * ch.part, end = part_end(ch);
    const float count = begin < end ? end - begin : 0, divisor = count > 0 ? count : 1;
    for (unsigned c = blockIdx.x; c < ch.C; c += gridDim.x) {
        float total = 0, off = 0, squares = 0;
        CHANNEL_LOOP(i, ch, c) total += X[i];
        const float mean = block_sum(total) / divisor;
        CHANNEL_LOOP(i, ch, c) {
            const float d = X[i] - mean;
            off += d;
            squares += d * d;
        }
        off = block_sum(off);
        squares = block_sum(squares);
        const float moved = off / divisor, M2 = squares - off * moved;
        if (threadIdx.x == 0)
            parts[blockIdx.y * ch.C + c] = {(double)mean + moved, M2 < 0 ? 0 : M2, count};
    } // (A NaN in M2 stays.)
}

// Merges the parts of each channel in their order: a thread per channel.
static __global__ void merge_parts(const struct Moments *parts, struct Channels ch,
                                   struct batch_norm_stats_args a) {
    GRID_LOOP(c, ch.C) {
        struct Moments all = {0, 0, 0};
        for (unsigned part = 0; part < ch.parts; part++) all = merge(all, parts[part * ch.C + c]);
        a.stats[c] = (float)all.mean;
        a.stats[ch.C + c] = (float)all.M2;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) a.stats[2 * (size_t)a.C] = (float)a.N * (float)a.S;
}

CUDA_KERNEL(batch_norm_stats) {
    const struct Channels ch = cut_channels(a->N, a->C, a->S);
    struct Moments *parts =
        (struct Moments *)cuda_scratch(lane, sizeof(struct Moments) * ch.parts * ch.C);
    moments_of_parts<<<blocks_for(ch), THREADS, 0, lane->stream>>>(a->X, ch, parts);
    merge_parts<<<blocks_for(ch.C), THREADS, 0, lane->stream>>>(parts, ch, *a);
}

// ---- the moments of all devices: a thread per channel ----------------------------------------

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

// ---- the gradient's sums: a block for each part of a channel ----------------------------------

// sums (parts,2C)
static __global__ void sums_of_parts(struct batch_norm_backward_sums_args a, struct Channels ch,
                                     float *sums) {
    for (unsigned c = blockIdx.x; c < ch.C; c += gridDim.x) {
        const float mean = a.mean[c];
        float sum = 0, product = 0;
        CHANNEL_LOOP(i, ch, c) {
            sum += a.dY[i];
            product += a.dY[i] * (a.X[i] - mean);
        }
        sum = block_sum(sum);
        product = block_sum(product);
        if (threadIdx.x != 0) continue;
        float *of_part = sums + (size_t)blockIdx.y * 2 * ch.C;
        of_part[c] = sum;
        of_part[ch.C + c] = product / sqrtf(a.var[c] + a.eps);
    }
}

// To add up the parts is to add up the rows of a matrix, as for the gradient of a bias.
CUDA_KERNEL(batch_norm_backward_sums) {
    const struct Channels ch = cut_channels(a->N, a->C, a->S);
    float *sums = (float *)cuda_scratch(lane, sizeof(float) * ch.parts * 2 * ch.C);
    sums_of_parts<<<blocks_for(ch), THREADS, 0, lane->stream>>>(*a, ch, sums);
    const struct add_bias_backward_args rows = {sums, a->sums, 0, (int)ch.parts, 2 * a->C};
    cuda_kernels[KERNEL_add_bias_backward](lane, &rows);
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
