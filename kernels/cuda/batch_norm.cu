// batch_norm.cu: batch normalisation, in the steps that kernels.h lists.
#include "grid.cuh"

// ---- moments: a block for each part of a channel ---------------------------------------------

struct Moments {
    double mean, M2, count; // M2: the sum of the squared deviations from the mean
};

// The moments of two sets together, by Chan's formula. The last term is there because the
// deviations of each set are from its own mean.
static __device__ struct Moments merge(struct Moments a, struct Moments b) {
    if (b.count == 0) return a;
    const double count = a.count + b.count, part = b.count / count, delta = b.mean - a.mean;
    return {a.mean + delta * part, a.M2 + b.M2 + delta * delta * a.count * part, count};
}

// parts (parts,C). This reads the numbers twice, because sum(x^2) - sum(x)^2 / count would lose all
// digits if the mean is large compared to the deviations. The second time they come from the cache.
// Deviations from the true mean add up to 0. The sum of ours shows by how much rounding moved the
// mean, and both results are corrected by it.
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

// Merges the parts of each channel in order, one thread per channel.
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

// Adding up the parts is adding up the rows of a matrix, as in the gradient of a bias.
CUDA_KERNEL(batch_norm_backward_sums) {
    const struct Channels ch = cut_channels(a->N, a->C, a->S);
    float *sums = (float *)cuda_scratch(lane, sizeof(float) * ch.parts * 2 * ch.C);
    sums_of_parts<<<blocks_for(ch), THREADS, 0, lane->stream>>>(*a, ch, sums);
    const struct add_bias_backward_args rows = {sums, a->sums, 0, (int)ch.parts, 2 * a->C, 1, 0};
    cuda_kernels[KERNEL_add_bias_backward](lane, &rows);
}

// ---- elementwise: neighbouring threads for the S pixels of a plane ---------------------------

// A thread that took one number would have to find its channel and to divide by the square root for
// this number alone, which takes longer than reading and writing it. So a warp takes a plane, which
// belongs to one channel, and does both once. Smaller planes get half a warp, a quarter, ...
struct Planes {
    struct Divisor lanes, C; // lanes: threads of a plane
    unsigned threads;        // of all planes
    dim3 blocks;             // in y: blocks that share a very large plane
};

static struct Planes planes_of(int N, int C, int S) {
    int lanes = 1;
    while (lanes < WARP && 2 * lanes <= S) lanes *= 2;
    const unsigned threads = S == 0 ? 0 : index_count((size_t)N * C * lanes);
    const unsigned pieces = S / (32 * WARP) + 1, most = 65535; // CUDA's limit
    return {divisor(lanes), divisor(C), threads,
            dim3(blocks_for(threads), pieces < most ? pieces : most)};
}

// Runs through this thread's numbers in the plane; i is their index.
#define PLANE_LOOP(i, plane, lane, planes, S)                                                      \
    for (size_t i = (size_t)(plane) * (S) + blockIdx.y * (planes).lanes.n + (lane),                \
                end_ = ((size_t)(plane) + 1) * (S);                                                \
         i < end_; i += gridDim.y * (planes).lanes.n)

// (X - mean) comes first. X scale + (bias - mean scale) would save an operation, but it would lose
// the digits that X and a large mean have in common.
static __global__ void batch_norm_forward(struct batch_norm_forward_args a, struct Planes planes) {
    INDEX_LOOP(thread, planes.threads) {
        const auto [plane, lane] = split(thread, planes.lanes);
        const unsigned c = split(plane, planes.C).rest;
        const float mean = a.mean[c], bias = a.bias[c];
        const float scale = a.weight[c] / sqrtf(a.var[c] + a.eps);
        PLANE_LOOP(i, plane, lane, planes, a.S) a.Y[i] = (a.X[i] - mean) * scale + bias;
    }
}

CUDA_KERNEL(batch_norm_forward) {
    const struct Planes planes = planes_of(a->N, a->C, a->S);
    batch_norm_forward<<<planes.blocks, THREADS, 0, lane->stream>>>(*a, planes);
}

// dX is scale (dY - shift - (X - mean) slope), from the formula in kernels.h.
static __global__ void batch_norm_backward_input(struct batch_norm_backward_input_args a,
                                                 struct Planes planes) {
    INDEX_LOOP(thread, planes.threads) {
        const auto [plane, lane] = split(thread, planes.lanes);
        const unsigned c = split(plane, planes.C).rest;
        const float inverse = 1 / sqrtf(a.var[c] + a.eps), scale = a.weight[c] * inverse;
        const float mean = a.sums ? a.mean[c] : 0, shift = a.sums ? a.sums[c] / *a.count : 0;
        const float slope = a.sums ? inverse * a.sums[a.C + c] / *a.count : 0;
        PLANE_LOOP(i, plane, lane, planes, a.S) {
            float d = a.dY[i];
            if (a.sums) d -= shift + (a.X[i] - mean) * slope;
            a.dX[i] = accumulate(a.beta, &a.dX[i], scale * d);
        }
    }
}

CUDA_KERNEL(batch_norm_backward_input) {
    const struct Planes planes = planes_of(a->N, a->C, a->S);
    batch_norm_backward_input<<<planes.blocks, THREADS, 0, lane->stream>>>(*a, planes);
}
