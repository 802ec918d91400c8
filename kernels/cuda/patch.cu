// patch.cu: convolution by patches, on the tensor cores of GPUs from sm_80 on: forward, and the
// gradient by the input, which is the same sum with the weights turned round.
//
// A block of threads computes TILE_M channels of TILE_P output pixels. For eight channels of the
// input at a time, it copies the patch under its pixels and the weights to shared memory, while it
// multiplies those that came before. Each tap of the kernel is then a matrix product
//     (TILE_P, 8) times (8, TILE_M)
// whose first factor is the patch, read at another offset.
//
// In conv2d.cu, im2col writes each pixel nine times to memory, and the product reads it again: with
// TF32, moving takes as long as multiplying. For ResNet-18's first residual block, 256 images, an
// H100 takes 454 us for one of its convolutions there and 133 us here; with three products, as
// float32, 630 us and 257 us.
#include "conv2d_patch.h"
#include "patch.cuh"

constexpr int TILE_P = 128, TILE_M = 64, BLOCK = 128, STAGES = 2, MAX_POSITIONS = 1024;

// With TF32, an H100 took 167 us for ResNet-18's layers of 4 x 4 pixels, and 111 by im2col.
#ifndef PIXELS_FOR_TF32
#define PIXELS_FOR_TF32 (7 * 7)
#endif

// Weights of eight input channels for TILE_M output channels and one tap: matrices of 8 output by 4
// input channels, which is what load_matrices() wants. With three products there are TILE_W small
// numbers behind TILE_W large ones.
constexpr int TILE_W = 8 * TILE_M;
template <int PRODUCTS> constexpr int TILE_SIZE = PRODUCTS == 3 ? 2 * TILE_W : TILE_W;

struct PatchConv {
    const float *in, *W, *b; // W: arranged as below; b may be NULL
    float *out, beta;
    int N, C, H, W_in; // of the input (N,C,H,W)
    int M, out_h, out_w, out_stride;
    int taps, most_taps;        // of the kernel, and of the sweep that has most of them
    int chunks, chunks_a_stage; // of eight channels of the input
    int positions, pitch;       // pixels in a patch; from one of its channels to the next
    int sweeps;
    struct Sweep sweep[4];
};

// ---- weights ---------------------------------------------------------------------------------

struct Arrangement {
    int C, M, taps; // input and output channels
    bool gradient;  // W is (C,M,taps) and not (M,C,taps)
    int weight[MAX_TAPS];
};

// to (tiles of M,chunks of C,taps,tile_size): for each tap, the tile that multiply_tile() wants,
// with zeros for channels that do not exist. A thread does one pair of channels.
template <int PRODUCTS>
static __global__ void arrange_weights(const float *W, float *to, struct Arrangement a,
                                       unsigned n) {
    const unsigned chunks = (a.C + 7) / 8;
    INDEX_LOOP(i, n) {
        const unsigned tile = i / TILE_W / chunks, chunk = i / TILE_W % chunks, at = i % TILE_W;
        const unsigned m = tile * TILE_M + at / 64 * 8 + at % 32 / 4,
                       c = chunk * 8 + at / 32 % 2 * 4 + at % 4;
        const bool inside = m < (unsigned)a.M && c < (unsigned)a.C;
        const float *from = W + (size_t)(a.gradient ? c * a.M + m : m * a.C + c) * a.taps;
        float *tiles = to + (size_t)(i / TILE_W) * a.taps * TILE_SIZE<PRODUCTS> + at;
        for (int tap = 0; tap < a.taps; tap++) {
            const float x = inside ? from[a.weight[tap]] : 0;
            const float large = __uint_as_float(to_tf32(x));
            tiles[tap * TILE_SIZE<PRODUCTS>] = large;
            if (PRODUCTS == 3)
                tiles[tap * TILE_SIZE<PRODUCTS> + TILE_W] = __uint_as_float(to_tf32(x - large));
        }
    }
}

// ---- the convolution -------------------------------------------------------------------------

#define FOR_EACH_SUM(i, j, r)                                                                      \
    _Pragma("unroll") for (int i = 0; i < TILE_P / 64; i++)                                        \
        _Pragma("unroll") for (int j = 0; j < 8; j++)                                              \
            _Pragma("unroll") for (int r = 0; r < 4; r++)

// TAPS is the number of taps of the only sweep, or 0.
template <int TAPS, int PRODUCTS>
static __global__ void __launch_bounds__(BLOCK) patch_conv(struct PatchConv a) {
    extern __shared__ float shared[];
    const struct Sweep &s = a.sweep[blockIdx.z];
    const unsigned first = blockIdx.x * TILE_P;
    if (first >= s.pixels) return;
    const int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    const int taps = TAPS ? TAPS : s.taps, weights_size = taps * TILE_SIZE<PRODUCTS>;
    const int a_stage = TAPS ? 1 : a.chunks_a_stage, plane = a.H * a.W_in;
    const int stage_size = a_stage * (weights_size + 8 * a.pitch);
    const unsigned begin = patch_begin(s, first), positions = s.patch_rows * s.cols.n;

    int from[MAX_POSITIONS / BLOCK]; // the pixels that this thread copies of each channel
#pragma unroll
    for (int i = 0; i < MAX_POSITIONS / BLOCK; i++)
        if (i * BLOCK < positions)
            from[i] = pixel_at(s, begin, i * BLOCK + threadIdx.x, a.N, a.C, a.H, a.W_in);
    const auto copy_chunk = [&](int chunk, float *weights, float *patch) {
        const float *W = a.W + ((size_t)(blockIdx.y * a.chunks + chunk) * a.taps + s.first_tap) *
                                   TILE_SIZE<PRODUCTS>;
#pragma unroll 9
        for (int i = 4 * threadIdx.x; i < weights_size; i += 4 * BLOCK)
            copy_async<4>(weights + i, W + i, true);
        const int channels = a.C - chunk * 8;
        const float *in = a.in + (size_t)chunk * 8 * plane;
#pragma unroll
        for (int i = 0; i < MAX_POSITIONS / BLOCK; i++) {
            const unsigned position = i * BLOCK + threadIdx.x;
            if (position >= positions) break;
            const float *pixel = in + (from[i] < 0 ? 0 : from[i]);
#pragma unroll
            for (int c = 0; c < 8; c++, pixel += plane)
                copy_async<1>(patch + c * a.pitch + position, pixel, from[i] >= 0 && c < channels);
        }
    };
    const auto copy_stage = [&](int stage) {
        float *weights = shared + stage % STAGES * stage_size;
        float *patch = weights + a_stage * weights_size;
        for (int i = 0; i < a_stage && stage * a_stage + i < a.chunks; i++)
            copy_chunk(stage * a_stage + i, weights + i * weights_size, patch + i * 8 * a.pitch);
    };

    // The pixels of this lane: rows g and g+8 of the warp's part of each 64.
    int window[TILE_P / 64][2];
    for (int i = 0; i < TILE_P / 64; i++)
        for (int h = 0; h < 2; h++) {
            const unsigned pixel = first + i * 64 + warp * 16 + h * 8 + g;
            window[i][h] = pixel < s.pixels ? window_in_patch(s, pixel, begin) : 0;
        }
    float sums[TILE_P / 64][8][4] = {};
    const auto multiply_chunk = [&](const float *weights, const float *patch) {
        float D[TILE_P / 64][8][4]; // with three products, a chunk is added up alone: less rounding
        FOR_EACH_SUM(i, j, r) D[i][j][r] = PRODUCTS == 3 ? 0 : sums[i][j][r];
#pragma unroll(TAPS ? TAPS : 1)
        for (int tap = 0; tap < taps; tap++) {
            const float *X = patch + t * a.pitch + s.offset[tap];
            const float *W = weights + tap * TILE_SIZE<PRODUCTS>;
            struct Factors<4> A[TILE_P / 64];
            struct Factors<2> B[2];
#pragma unroll
            for (int i = 0; i < TILE_P / 64; i++)
#pragma unroll
                for (int r = 0; r < 4; r++)
                    set<PRODUCTS>(A[i], r, X[r / 2 * 4 * a.pitch + window[i][r % 2]]);
#pragma unroll
            for (int j = 0; j < 8;
                 j += 2) { // 16 output channels: rows 0-3, 4-7 of 8, then of 8 more
                load_matrices(B[0].large, B[1].large, W + j * 64);
                if (PRODUCTS == 3) load_matrices(B[0].small, B[1].small, W + TILE_W + j * 64);
#pragma unroll
                for (int i = 0; i < TILE_P / 64; i++) {
                    multiply<PRODUCTS>(D[i][j], A[i], B[0]);
                    multiply<PRODUCTS>(D[i][j + 1], A[i], B[1]);
                }
            }
        }
        FOR_EACH_SUM(i, j, r)
        sums[i][j][r] = PRODUCTS == 3 ? sums[i][j][r] + D[i][j][r] : D[i][j][r];
    };

    const int stages = taps == 0 ? 0 : (a.chunks + a_stage - 1) / a_stage;
    if (stages > 0) copy_stage(0);
    copies_commit();
    for (int stage = 0; stage < stages; stage++) {
        copies_wait<0>();
        __syncthreads(); // this stage is there for all, and all are done with the one before it
        if (stage + 1 < stages) copy_stage(stage + 1);
        copies_commit();
        const float *weights = shared + stage % STAGES * stage_size;
        for (int i = 0; i < a_stage && stage * a_stage + i < a.chunks; i++)
            multiply_chunk(weights + i * weights_size,
                           weights + a_stage * weights_size + i * 8 * a.pitch);
    }

    const size_t out_plane = (size_t)a.out_h * a.out_w;
#pragma unroll
    for (int i = 0; i < 2 * (TILE_P / 64); i++) {
        const unsigned pixel = first + i / 2 * 64 + warp * 16 + i % 2 * 8 + g;
        if (pixel >= s.pixels) continue;
        const auto [image, inner] = split(pixel, s.plane);
        const auto [line, col] = split(inner, s.width);
        float *to = a.out + (size_t)image * a.M * out_plane +
                    (size_t)(line * a.out_stride + s.out_top) * a.out_w + col * a.out_stride +
                    s.out_left;
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const int m = blockIdx.y * TILE_M + j / 2 * 8 + 2 * t + j % 2;
            if (m >= a.M) continue;
            const float sum = sums[i / 2][j / 2][i % 2 * 2 + j % 2] + (a.b ? a.b[m] : 0);
            to[m * out_plane] = accumulate(a.beta, to + m * out_plane, sum);
        }
    }
}

// ---- plans -----------------------------------------------------------------------------------

static void plan_stages(struct PatchConv *a) {
    for (int i = 0, tap = 0; i < a->sweeps; tap += a->sweep[i++].taps) {
        a->sweep[i].first_tap = tap;
        if (a->sweep[i].taps > a->most_taps) a->most_taps = a->sweep[i].taps;
    }
    a->chunks = (a->C + 7) / 8;
    a->chunks_a_stage = a->most_taps > 4 ? 1 : a->most_taps > 1 ? 2 : 4;
    // 8 more than a multiple of 32: no two lanes of a warp read from the same bank.
    a->pitch = (a->positions + 23) / 32 * 32 + 8;
}

static struct PatchConv plan_of_forward(const struct conv2d_shape *s) {
    struct PatchConv a = {};
    a.N = s->N, a.C = s->C, a.H = s->H, a.W_in = s->W;
    a.M = s->M, a.out_h = s->out_h, a.out_w = s->out_w, a.out_stride = 1;
    a.taps = s->kernel_h * s->kernel_w, a.sweeps = 1;
    a.positions = plan_forward(a.sweep, s, TILE_P);
    plan_stages(&a);
    return a;
}

static struct PatchConv plan_of_gradient(const struct conv2d_shape *s) {
    struct PatchConv a = {};
    a.N = s->N, a.C = s->M, a.H = s->out_h, a.W_in = s->out_w;
    a.M = s->C, a.out_h = s->H, a.out_w = s->W, a.out_stride = s->stride_h;
    a.taps = s->kernel_h * s->kernel_w, a.sweeps = s->stride_h * s->stride_w;
    for (int i = 0; i < a.sweeps; i++) {
        const int n = plan_gradient(&a.sweep[i], s, i / s->stride_w, i % s->stride_w, TILE_P);
        if (n > a.positions) a.positions = n;
    }
    plan_stages(&a);
    return a;
}

static size_t shared_bytes(const struct PatchConv *a, bool tf32) {
    const size_t weights = (size_t)a->most_taps * (tf32 ? TILE_SIZE<1> : TILE_SIZE<3>);
    return STAGES * sizeof(float) * a->chunks_a_stage * (weights + 8 * (size_t)a->pitch);
}

bool patches_fit(const CudaLane *lane, const struct conv2d_shape *s, const void *pooled) {
    const bool square = s->kernel_h == s->kernel_w && s->stride_h == s->stride_w;
    const bool known = (s->kernel_h == 3 || s->kernel_h == 1) && s->stride_h <= 2;
    const size_t in = (size_t)s->N * s->C * s->H * s->W;
    const size_t out = (size_t)s->N * s->M * s->out_h * s->out_w;
    if (lane->arch < 80 || pooled || !square || !known || in == 0 || out == 0 || in >> 31 ||
        out >> 31)
        return false;
    // cuBLAS's products are faster, if small images do not make patches that are mostly border.
    // Three products it has none of.
    if (lane->tf32 && s->out_h * s->out_w < PIXELS_FOR_TF32) return false;
    const struct PatchConv forward = plan_of_forward(s), gradient = plan_of_gradient(s);
    return forward.positions <= MAX_POSITIONS && gradient.positions <= MAX_POSITIONS &&
           shared_bytes(&forward, lane->tf32) <= lane->shared_bytes &&
           shared_bytes(&gradient, lane->tf32) <= lane->shared_bytes;
}

// ---- launches --------------------------------------------------------------------------------

template <int TAPS, int PRODUCTS>
static void launch_as(CudaLane *lane, struct PatchConv *a, const float *W, bool gradient) {
    struct Arrangement arrangement = {a->C, a->M, a->taps, gradient, {}};
    unsigned pixels = 0;
    for (int i = 0; i < a->sweeps; i++) {
        const struct Sweep *s = &a->sweep[i];
        for (int j = 0; j < s->taps; j++) arrangement.weight[s->first_tap + j] = s->weight[j];
        if (s->pixels > pixels) pixels = s->pixels;
    }
    const unsigned tiles = (a->M + TILE_M - 1) / TILE_M;
    const unsigned n = index_count((size_t)tiles * a->chunks * TILE_W);
    float *arranged =
        (float *)cuda_scratch(lane, sizeof(float) * n * a->taps * TILE_SIZE<PRODUCTS> / TILE_W);
    arrange_weights<PRODUCTS>
        <<<blocks_for(n), THREADS, 0, lane->stream>>>(W, arranged, arrangement, n);
    a->W = arranged;
    const size_t bytes = shared_bytes(a, PRODUCTS == 1);
    CUDA_CHECK(cudaFuncSetAttribute(patch_conv<TAPS, PRODUCTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const dim3 grid((pixels + TILE_P - 1) / TILE_P, tiles, a->sweeps);
    patch_conv<TAPS, PRODUCTS><<<grid, BLOCK, bytes, lane->stream>>>(*a);
}

static void launch(CudaLane *lane, struct PatchConv *a, const float *W, bool gradient) {
    if (a->most_taps == 9)
        (lane->tf32 ? launch_as<9, 1> : launch_as<9, 3>)(lane, a, W, gradient);
    else
        (lane->tf32 ? launch_as<0, 1> : launch_as<0, 3>)(lane, a, W, gradient);
}

void conv2d_forward_by_patches(CudaLane *lane, const struct conv2d_forward_args *a) {
    struct PatchConv p = plan_of_forward(&a->s);
    p.in = a->X, p.b = a->b, p.out = a->Y;
    launch(lane, &p, a->W, false);
}

void conv2d_backward_input_by_patches(CudaLane *lane, const struct conv2d_backward_input_args *a) {
    struct PatchConv p = plan_of_gradient(&a->s);
    p.in = a->dY, p.out = a->dX, p.beta = a->beta;
    launch(lane, &p, a->W, true);
}
