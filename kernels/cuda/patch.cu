// patch.cu: convolution by patches, on the tensor cores of GPUs from sm_80 on: forward, and the
// gradient by the input, which is the same sum with the weights turned round.
//
// A block of threads computes TILE_M channels of TILE_P output pixels. For CH channels of the input
// at a time, it copies the patch under its pixels and the weights to shared memory, while it
// multiplies those that came before. Each tap of the kernel is then a matrix product
//     (TILE_M, CH) times (CH, TILE_P)
// whose second factor is the patch, read at another offset.
#include "conv2d_patch.h"
#include "patch.cuh"

constexpr int TILE_M = 64, TILE_P = 128, TILE_THREADS = 128, STAGES = 2, MAX_POSITIONS = 1024;

struct PatchConv {
    const float *in, *W, *b; // b may be NULL
    float *out, beta;
    int N, C, H, W_in; // of the input (N,C,H,W)
    int M, out_h, out_w, out_stride;
    int pitch;   // from one channel of a patch to the next, in floats
    bool aligned; // weights can be copied four at a time
    struct Sweep sweep[4];
};

// How the weights of CH input and TILE_M output channels lie in shared memory, for a kernel of KK
// taps. W is (M,C,KK); the gradient reads it with M and C exchanged, (C,M,KK), so that its rows are
// input channels. Pitches: so that the 32 lanes of a warp read from 32 banks.
template <int KK, int CH, bool GRADIENT> struct Weights {
    static constexpr int ROWS = GRADIENT ? CH : TILE_M, LENGTH = (GRADIENT ? TILE_M : CH) * KK;
    static constexpr int PITCH = LENGTH + (GRADIENT ? 8 : 4), SIZE = ROWS * PITCH;
    static constexpr int OF_M = GRADIENT ? KK : PITCH, OF_C = GRADIENT ? PITCH : KK;
};

template <class Weights, int KK, int FLOATS>
static __device__ void copy_weights(const struct PatchConv &a, float *to, int row0, int rows,
                                    int col0, int cols) {
    constexpr int PER_ROW = Weights::LENGTH / FLOATS;
    for (int i = threadIdx.x; i < Weights::ROWS * PER_ROW; i += TILE_THREADS) {
        const int row = i / PER_ROW, col = i % PER_ROW * FLOATS;
        const bool inside = row0 + row < rows && col0 * KK + col < cols * KK;
        const float *from = a.W + ((size_t)(row0 + row) * cols + col0) * KK + col;
        copy_async<FLOATS>(to + row * Weights::PITCH + col, inside ? from : a.W, inside);
    }
}

struct alignas(8) Pair {
    float x, y;
};

template <int KK, int CH, bool GRADIENT, bool ALL, int PRODUCTS>
static __global__ void __launch_bounds__(TILE_THREADS) patch_conv(struct PatchConv a) {
    using W = Weights<KK, CH, GRADIENT>;
    extern __shared__ float shared[];
    const struct Sweep &s = a.sweep[blockIdx.z];
    const unsigned first = blockIdx.x * TILE_P;
    if (first >= s.pixels) return;
    const int m0 = blockIdx.y * TILE_M, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int g = lane / 4, t = lane % 4; // see mma_tf32()
    const unsigned begin = patch_begin(s, first);
    const int stage_size = W::SIZE + CH * a.pitch, plane = a.H * a.W_in;
    const int positions = s.patch_rows * (int)s.cols.n;

    int from[MAX_POSITIONS / TILE_THREADS]; // the pixels that this thread copies of each channel
#pragma unroll
    for (int i = 0; i < MAX_POSITIONS / TILE_THREADS; i++) {
        from[i] = -1;
        if (i * TILE_THREADS < positions)
            from[i] = pixel_at(s, begin, i * TILE_THREADS + threadIdx.x, a.N, a.C, a.H, a.W_in);
    }
    const auto copy_stage = [&](int c0, float *stage) {
        const int row0 = GRADIENT ? c0 : m0, rows = GRADIENT ? a.C : a.M;
        const int col0 = GRADIENT ? m0 : c0, cols = GRADIENT ? a.M : a.C;
        if (a.aligned)
            copy_weights<W, KK, 4>(a, stage, row0, rows, col0, cols);
        else
            copy_weights<W, KK, 1>(a, stage, row0, rows, col0, cols);
        float *patch = stage + W::SIZE;
#pragma unroll
        for (int i = 0; i < MAX_POSITIONS / TILE_THREADS; i++) {
            const int position = i * TILE_THREADS + threadIdx.x;
            if (position < positions)
                for (int c = 0; c < CH; c++) {
                    const bool inside = from[i] >= 0 && c0 + c < a.C;
                    copy_async<1>(patch + c * a.pitch + position,
                                  inside ? a.in + from[i] + (size_t)(c0 + c) * plane : a.in,
                                  inside);
                }
        }
    };

    int window[4]; // of this lane's pixel in each of the four groups of 8 that its warp computes
    for (int j = 0; j < 4; j++) {
        const unsigned pixel = first + warp * 32 + j * 8 + g;
        window[j] = pixel < s.pixels ? window_in_patch(s, pixel, begin) : 0;
    }
    float sums[4][4][4] = {};
    const auto multiply_stage = [&](const float *stage) {
        const float *weights = stage, *pixel[4][2];
        for (int j = 0; j < 4; j++)
            for (int half = 0; half < 2; half++)
                pixel[j][half] = stage + W::SIZE + (t + 4 * half) * a.pitch + window[j];
        float D[4][4][4]; // three products each: a stage is added up alone, which rounds less
        for (int i = 0; i < 64; i++) D[0][0][i] = PRODUCTS == 3 ? 0 : sums[0][0][i];
#pragma unroll
        for (int tap = 0; tap < KK; tap++) {
            if (!ALL && tap >= s.taps) break;
            const int offset = s.offset[tap];
            const int weight = !ALL ? s.weight[tap] : GRADIENT ? KK - 1 - tap : tap;
#pragma unroll
            for (int c = 0; c < CH; c += 8) {
                struct Factors<4> A[4];
                struct Factors<2> B[4];
                for (int j = 0; j < 4; j++)
                    for (int half = 0; half < 2; half++)
                        split_factor<PRODUCTS>(B[j], half,
                                               pixel[j][half][c * a.pitch + offset]);
                for (int i = 0; i < 4; i++)
                    for (int r = 0; r < 4; r++) {
                        const int m = i * 16 + g + r % 2 * 8, channel = c + t + r / 2 * 4;
                        const float x = weights[m * W::OF_M + channel * W::OF_C + weight];
                        if (PRODUCTS == 1)
                            A[i].large[r] = __float_as_uint(x); // rounded already
                        else
                            split_factor<PRODUCTS>(A[i], r, x);
                    }
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) multiply<PRODUCTS>(D[i][j], A[i], B[j]);
            }
        }
        for (int i = 0; i < 64; i++)
            sums[0][0][i] = PRODUCTS == 3 ? sums[0][0][i] + D[0][0][i] : D[0][0][i];
    };

    const int stages = s.taps == 0 ? 0 : (a.C + CH - 1) / CH;
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < stages) copy_stage(stage * CH, shared + stage * stage_size);
        copies_commit();
    }
    for (int stage = 0; stage < stages; stage++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); // this stage is there for all, and all are done with the one before it
        const int next = stage + STAGES - 1;
        if (next < stages) copy_stage(next * CH, shared + next % STAGES * stage_size);
        copies_commit();
        multiply_stage(shared + stage % STAGES * stage_size);
    }

    // D's columns 2t and 2t+1: two pixels side by side, if the grid's width is even.
    const size_t out_plane = (size_t)a.out_h * a.out_w;
    const bool pairs = a.out_stride == 1 && s.width.n % 2 == 0 && out_plane % 2 == 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const unsigned pixel = first + warp * 32 + j * 8 + 2 * t;
        size_t at[2];
        for (int e = 0; e < 2; e++) {
            const auto [image, inner] = split(pixel + e, s.plane);
            const auto [line, col] = split(inner, s.width);
            at[e] = (size_t)image * a.M * out_plane +
                    (size_t)(line * a.out_stride + s.out_top) * a.out_w + col * a.out_stride +
                    s.out_left;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int r = 0; r < 4; r += 2) {
                const int m = m0 + i * 16 + g + r / 2 * 8;
                if (m >= a.M || pixel >= s.pixels) continue;
                const float bias = a.b ? a.b[m] : 0;
                float *to = a.out + m * out_plane;
                const float x = accumulate(a.beta, to + at[0], sums[i][j][r] + bias);
                if (pairs) {
                    const float y = accumulate(a.beta, to + at[1], sums[i][j][r + 1] + bias);
                    *(struct Pair *)(to + at[0]) = {x, y};
                    continue;
                }
                to[at[0]] = x;
                if (pixel + 1 < s.pixels)
                    to[at[1]] = accumulate(a.beta, to + at[1], sums[i][j][r + 1] + bias);
            }
    }
}

// ---- launches --------------------------------------------------------------------------------

constexpr int CHANNELS_OF_3X3 = 8, CHANNELS_OF_1X1 = 32; // CH

template <int KK, int CH, bool GRADIENT, bool ALL, int PRODUCTS>
static void launch_as(CudaLane *lane, struct PatchConv *a, int positions, int sweeps) {
    a->pitch = (positions + 23) / 32 * 32 + 8; // 8 more than a multiple of 32: no two lanes of a
                                               // warp read from the same bank
    const size_t bytes =
        STAGES * sizeof(float) * (Weights<KK, CH, GRADIENT>::SIZE + (size_t)CH * a->pitch);
    const unsigned tiles_m = (a->M + TILE_M - 1) / TILE_M;
    unsigned pixels = 0;
    for (int i = 0; i < sweeps; i++)
        if (a->sweep[i].pixels > pixels) pixels = a->sweep[i].pixels;
    const dim3 grid((pixels + TILE_P - 1) / TILE_P, tiles_m, sweeps);
    CUDA_CHECK(cudaFuncSetAttribute(patch_conv<KK, CH, GRADIENT, ALL, PRODUCTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    patch_conv<KK, CH, GRADIENT, ALL, PRODUCTS>
        <<<grid, TILE_THREADS, bytes, lane->stream>>>(*a);
}

// Each block would round the same weights again, 32 of the 48 numbers of each product.
static __global__ void round_weights(const float *W, float *rounded, size_t n) {
    GRID_LOOP(i, n) rounded[i] = __uint_as_float(to_tf32(W[i]));
}

template <int KK, int CH, bool GRADIENT, bool ALL>
static void launch(CudaLane *lane, struct PatchConv *a, int positions, int sweeps) {
    a->aligned = (GRADIENT ? a->M : a->C) * KK % 4 == 0;
    if (lane->tf32) {
        const size_t n = (size_t)a->M * a->C * KK;
        float *rounded = (float *)cuda_scratch(lane, n * sizeof(float));
        round_weights<<<blocks_for(n), THREADS, 0, lane->stream>>>(a->W, rounded, n);
        a->W = rounded;
        launch_as<KK, CH, GRADIENT, ALL, 1>(lane, a, positions, sweeps);
    } else
        launch_as<KK, CH, GRADIENT, ALL, 3>(lane, a, positions, sweeps);
}

static int plan_gradients(struct Sweep *sweep, const struct conv2d_shape *s) {
    int most = 0;
    for (int i = 0; i < s->stride_h * s->stride_w; i++) {
        const int n = plan_gradient(&sweep[i], s, i / s->stride_w, i % s->stride_w, TILE_P);
        most = n > most ? n : most;
    }
    return most;
}

bool patches_fit(const CudaLane *lane, const struct conv2d_shape *s, const void *pooled) {
    const bool square = s->kernel_h == s->kernel_w && s->stride_h == s->stride_w;
    const bool known = (s->kernel_h == 3 || s->kernel_h == 1) && s->stride_h <= 2;
    const size_t in = (size_t)s->N * s->C * s->H * s->W;
    const size_t out = (size_t)s->N * s->M * s->out_h * s->out_w;
    if (lane->sm < 80 || pooled || !square || !known || in == 0 || out == 0 || in >> 31 || out >> 31)
        return false;
    struct Sweep sweep[4];
    return plan_forward(sweep, s, TILE_P) <= MAX_POSITIONS &&
           plan_gradients(sweep, s) <= MAX_POSITIONS && patch_weights_fit(s);
}

void conv2d_forward_by_patches(CudaLane *lane, const struct conv2d_forward_args *a) {
    const struct conv2d_shape *s = &a->s;
    struct PatchConv p = {a->X, a->W, a->b,     a->Y,     0, s->N, s->C, s->H,
                          s->W, s->M, s->out_h, s->out_w, 1, 0,    false, {}};
    const int positions = plan_forward(p.sweep, s, TILE_P);
    if (s->kernel_h == 3)
        launch<9, CHANNELS_OF_3X3, false, true>(lane, &p, positions, 1);
    else
        launch<1, CHANNELS_OF_1X1, false, true>(lane, &p, positions, 1);
}

void conv2d_backward_input_by_patches(CudaLane *lane, const struct conv2d_backward_input_args *a) {
    const struct conv2d_shape *s = &a->s;
    struct PatchConv p = {a->dY,    a->W, NULL, a->dX, a->beta,     s->N, s->M,  s->out_h,
                          s->out_w, s->C, s->H, s->W,  s->stride_h, 0,    false, {}};
    const int positions = plan_gradients(p.sweep, s), sweeps = s->stride_h * s->stride_w;
    if (s->kernel_h == 1)
        launch<1, CHANNELS_OF_1X1, true, false>(lane, &p, positions, sweeps);
    else if (sweeps == 1)
        launch<9, CHANNELS_OF_3X3, true, true>(lane, &p, positions, 1);
    else
        launch<9, CHANNELS_OF_3X3, true, false>(lane, &p, positions, sweeps);
}
