// patch_weights.cu: a convolution's gradient by its weights, by patches and on tensor cores.
//
// A block of threads computes the gradients of TILE_M x TILE_C kernels, all taps of each, and keeps
// them in registers: dY and X are read once for all taps. It runs through a part of the output
// pixels of all images, PIXELS at a time. For each tap that is a matrix product
//     (TILE_M, PIXELS) times (PIXELS, TILE_C)
// of dY and of the patch under these pixels. A second kernel adds up the parts, in order.
#include "conv2d_patch.h"
#include "patch.cuh"

constexpr int TILE_M = 64, TILE_C = 64, WARPS = TILE_C / 8, STAGES = 2;
constexpr size_t SHARED_BYTES = 227 << 10; // that a block may have on sm_90

// Blocks in all: about one for each multiprocessor of a large GPU. It decides into how many parts
// the pixels are cut, and so the order of sums; so it is a number and not the GPU's.
#ifndef WEIGHT_BLOCKS
#define WEIGHT_BLOCKS 132
#endif

struct PatchWeights {
    const float *dY, *X;
    float *sums; // (parts,taps,M,C)
    int N, C, H, W, M, plane; // plane: pixels of an image of dY
    int pitch;                // from one channel of a patch to the next, in floats
    unsigned part;            // pixels in a part
    bool aligned;             // dY can be copied four pixels at a time
    struct Sweep sweep;
};

// A stage in shared memory. Pitches: 4 more than a multiple of 32, so that the lanes of a warp read
// from 32 banks.
template <int PIXELS> struct Stage {
    static constexpr int PITCH = PIXELS + 4, DY = TILE_M * PITCH;
    static size_t size(int pitch) { return DY + PIXELS + (size_t)TILE_C * pitch; }
};

template <int PIXELS, int FLOATS>
static __device__ void copy_dY(const struct PatchWeights &a, float *to, int m0, unsigned first,
                               unsigned end) {
    constexpr int PER_ROW = PIXELS / FLOATS;
    const unsigned pixel = first + threadIdx.x % PER_ROW * FLOATS;
    const auto [image, inner] = split(pixel, a.sweep.plane);
    const float *from = a.dY + ((size_t)image * a.M + m0) * a.plane + inner;
    for (int m = threadIdx.x / PER_ROW; m < TILE_M; m += WARPS * WARP / PER_ROW) {
        const bool inside = pixel < end && m0 + m < a.M;
        copy_async<FLOATS>(to + m * Stage<PIXELS>::PITCH + threadIdx.x % PER_ROW * FLOATS,
                           inside ? from + (size_t)m * a.plane : a.dY, inside);
    }
}

template <int KK, int PIXELS, int PRODUCTS>
static __global__ void __launch_bounds__(WARPS *WARP) patch_weights(struct PatchWeights a) {
    using S = Stage<PIXELS>;
    extern __shared__ float shared[];
    const struct Sweep &s = a.sweep;
    const int m0 = blockIdx.x * TILE_M, c0 = blockIdx.y * TILE_C;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int my_c = c0 + warp * 8; // a warp copies and multiplies eight channels of X
    const unsigned from = blockIdx.z * a.part;
    const unsigned end = from + a.part < s.pixels ? from + a.part : s.pixels;
    const int stage_size = S::DY + PIXELS + TILE_C * a.pitch, positions = s.patch_rows * s.cols.n;

    const auto copy_stage = [&](unsigned first, float *stage) {
        const unsigned begin = patch_begin(s, first);
        int *windows = (int *)(stage + S::DY);
        float *patch = stage + S::DY + PIXELS + warp * 8 * a.pitch;
        if (a.aligned)
            copy_dY<PIXELS, 4>(a, stage, m0, first, end);
        else
            copy_dY<PIXELS, 1>(a, stage, m0, first, end);
        if (threadIdx.x < PIXELS) {
            const unsigned pixel = first + threadIdx.x;
            windows[threadIdx.x] = pixel < end ? window_in_patch(s, pixel, begin) : 0;
        }
        if (my_c >= a.C) return;
        for (int position = lane; position < positions; position += WARP) {
            const int pixel = pixel_at(s, begin, position, a.N, a.C, a.H, a.W);
            for (int c = 0; c < 8; c++) {
                const bool inside = pixel >= 0 && my_c + c < a.C;
                copy_async<1>(patch + c * a.pitch + position,
                              inside ? a.X + pixel + (size_t)(my_c + c) * a.H * a.W : a.X, inside);
            }
        }
    };

    float sums[TILE_M / 16][KK][4] = {};
    const auto multiply_stage = [&](const float *stage) {
        const int *windows = (const int *)(stage + S::DY);
        const float *patch = stage + S::DY + PIXELS + (warp * 8 + g) * a.pitch;
#pragma unroll 1
        for (int k = 0; k < PIXELS; k += 8) {
            struct Factors<4> A[TILE_M / 16];
            for (int i = 0; i < TILE_M / 16; i++)
                for (int r = 0; r < 4; r++)
                    split_factor<PRODUCTS>(
                        A[i], r,
                        stage[(i * 16 + g + r % 2 * 8) * S::PITCH + k + t + r / 2 * 4]);
            const float *left = patch + windows[k + t], *right = patch + windows[k + t + 4];
#pragma unroll
            for (int tap = 0; tap < KK; tap++) {
                struct Factors<2> B;
                split_factor<PRODUCTS>(B, 0, left[s.offset[tap]]);
                split_factor<PRODUCTS>(B, 1, right[s.offset[tap]]);
                for (int i = 0; i < TILE_M / 16; i++) multiply<PRODUCTS>(sums[i][tap], A[i], B);
            }
        }
    };

    const int stages = (end - from + PIXELS - 1) / PIXELS;
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < stages) copy_stage(from + stage * PIXELS, shared + stage * stage_size);
        copies_commit();
    }
    for (int stage = 0; stage < stages; stage++) {
        copies_wait<STAGES - 2>();
        __syncthreads(); // this stage is there for all, and all are done with the one before it
        const int next = stage + STAGES - 1;
        if (next < stages) copy_stage(from + next * PIXELS, shared + next % STAGES * stage_size);
        copies_commit();
        if (my_c < a.C) multiply_stage(shared + stage % STAGES * stage_size);
    }

    float *to = a.sums + (size_t)blockIdx.z * KK * a.M * a.C;
    for (int tap = 0; tap < KK; tap++)
        for (int i = 0; i < TILE_M / 16; i++)
            for (int r = 0; r < 4; r++) {
                const int m = m0 + i * 16 + g + r / 2 * 8, c = my_c + 2 * t + r % 2;
                if (m < a.M && c < a.C) to[((size_t)tap * a.M + m) * a.C + c] = sums[i][tap][r];
            }
}

// sums (parts,taps,n) -> dW (n,taps)
static __global__ void add_parts(const float *sums, unsigned parts, struct Divisor n, unsigned taps,
                                 float beta, float *dW) {
    INDEX_LOOP(i, n.n * taps) {
        float sum = 0;
#pragma unroll 8
        for (unsigned part = 0; part < parts; part++) sum += sums[(size_t)part * n.n * taps + i];
        const auto [tap, weight] = split(i, n);
        float *to = &dW[(size_t)weight * taps + tap];
        *to = accumulate(beta, to, sum);
    }
}

// ---- launches --------------------------------------------------------------------------------

static int pitch_of(int positions) { return (positions + 27) / 32 * 32 + 4; }

template <int PIXELS> static size_t shared_bytes(const struct conv2d_shape *s) {
    struct Sweep sweep;
    const int positions = plan_forward(&sweep, s, PIXELS);
    return STAGES * sizeof(float) * Stage<PIXELS>::size(pitch_of(positions));
}

bool patch_weights_fit(const struct conv2d_shape *s) { return shared_bytes<32>(s) <= SHARED_BYTES; }

template <int KK, int PIXELS, int PRODUCTS>
static void launch_as(CudaLane *lane, const struct conv2d_backward_params_args *args) {
    const struct conv2d_shape *s = &args->s;
    const int plane = s->out_h * s->out_w;
    struct PatchWeights a = {args->dY, args->X, NULL, s->N, s->C,           s->H, s->W,
                             s->M,     plane,   0,    0,    plane % 4 == 0, {}};
    a.pitch = pitch_of(plan_forward(&a.sweep, s, PIXELS));
    const unsigned tiles_m = (s->M + TILE_M - 1) / TILE_M, tiles_c = (s->C + TILE_C - 1) / TILE_C;
    const unsigned stages = (a.sweep.pixels + PIXELS - 1) / PIXELS, tiles = tiles_m * tiles_c;
    const unsigned wanted = tiles < WEIGHT_BLOCKS ? WEIGHT_BLOCKS / tiles : 1;
    a.part = (stages + wanted - 1) / wanted * PIXELS;
    const unsigned parts = (a.sweep.pixels + a.part - 1) / a.part;
    const size_t n = (size_t)s->M * s->C, bytes = shared_bytes<PIXELS>(s);
    a.sums = (float *)cuda_scratch(lane, parts * KK * n * sizeof(float));
    CUDA_CHECK(cudaFuncSetAttribute(patch_weights<KK, PIXELS, PRODUCTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    patch_weights<KK, PIXELS, PRODUCTS>
        <<<dim3(tiles_m, tiles_c, parts), WARPS * WARP, bytes, lane->stream>>>(a);
    add_parts<<<blocks_for(KK * n), THREADS, 0, lane->stream>>>(a.sums, parts, divisor(n), KK,
                                                                args->beta, args->dW);
}

template <int KK, int PIXELS>
static void launch(CudaLane *lane, const struct conv2d_backward_params_args *a) {
    if (lane->tf32)
        launch_as<KK, PIXELS, 1>(lane, a);
    else
        launch_as<KK, PIXELS, 3>(lane, a);
}

void conv2d_weights_by_patches(CudaLane *lane, const struct conv2d_backward_params_args *a) {
    const bool many = shared_bytes<64>(&a->s) <= SHARED_BYTES;
    if (a->s.kernel_h == 1)
        many ? launch<1, 64>(lane, a) : launch<1, 32>(lane, a);
    else
        many ? launch<9, 64>(lane, a) : launch<9, 32>(lane, a);
}
