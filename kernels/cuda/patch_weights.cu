// patch_weights.cu: a convolution's gradient by its weights, by patches and on tensor cores.
//
// A block of threads computes the gradients of TILE_M x TILE_C kernels, all taps of each, and keeps
// them in registers: dY and X are read once for all taps. It runs through a part of the output
// pixels of all images, PIXELS at a time. For each tap that is a matrix product
//     (TILE_M, PIXELS) times (PIXELS, TILE_C)
// of dY and of the patch under these pixels. A second kernel adds up the parts, in order.
//
// In ResNet-18's first residual block, 256 images, an H100 takes 187 us for this, and 482 us by
// im2col; as float32, 335 us and 690 us.
#include "conv2d_patch.h"
#include "patch.cuh"

constexpr int TILE_M = 64, TILE_C = 64, BLOCK = TILE_C / 8 * WARP, STAGES = 2;

// Blocks in all: about one for each multiprocessor of a large GPU. It decides into how many parts
// the pixels are cut, and so the order of sums; so it is a number and not the GPU's.
#ifndef WEIGHT_BLOCKS
#define WEIGHT_BLOCKS 132
#endif

// With TF32, an H100 took 204 us for ResNet-18's layers of 7 x 7 pixels, and 137 by im2col.
#ifndef WEIGHT_PIXELS_FOR_TF32
#define WEIGHT_PIXELS_FOR_TF32 (14 * 14)
#endif

struct PatchWeights {
    const float *dY, *X;
    float *sums;              // (parts,taps,M,C)
    int N, C, H, W, M, plane; // plane: pixels of an image of dY
    int pitch;                // from one channel of a patch to the next, in floats
    unsigned part;            // pixels in a part
    struct Sweep sweep;
};

// A stage in shared memory. Pitches: 4 more than a multiple of 32, so that the lanes of a warp read
// from 32 banks.
template <int PIXELS> struct Stage {
    static constexpr int PITCH = PIXELS + 4, DY = TILE_M * PITCH;
    static size_t size(int pitch) { return DY + PIXELS + (size_t)TILE_C * pitch; }
};

template <int KK, int PIXELS, int FLOATS, int PRODUCTS>
static __global__ void __launch_bounds__(BLOCK) patch_weights(struct PatchWeights a) {
    using S = Stage<PIXELS>;
    constexpr int PARTS = PIXELS / 8;                // in which a stage is copied and multiplied
    constexpr int PER_ROW = PIXELS / FLOATS;         // copies for a row of dY
    constexpr int COPIES = PER_ROW * TILE_M / PARTS; // in a part
    extern __shared__ float shared[];
    const struct Sweep &s = a.sweep;
    const int m0 = blockIdx.x * TILE_M, c0 = blockIdx.y * TILE_C;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int my_c = c0 + warp * 8; // a warp copies and multiplies eight channels of X
    const unsigned from = blockIdx.z * a.part;
    const unsigned end = from + a.part < s.pixels ? from + a.part : s.pixels;
    const int stage_size = S::DY + PIXELS + TILE_C * a.pitch, positions = s.patch_rows * s.cols.n;
    const size_t plane = (size_t)a.H * a.W;

    const auto copy_part = [&](int stage, int part) {
        const unsigned first = from + stage * PIXELS, begin = patch_begin(s, first);
        float *dY = shared + stage % STAGES * stage_size;
        int *windows = (int *)(dY + S::DY);
        float *patch = (float *)windows + PIXELS + warp * 8 * a.pitch;
#pragma unroll
        for (int i = threadIdx.x; i < COPIES; i += BLOCK) {
            const int row = (part * COPIES + i) / PER_ROW, col = i % PER_ROW * FLOATS;
            const auto [image, inner] = split(first + col, s.plane);
            const bool inside = first + col < end && m0 + row < a.M;
            const size_t number = ((size_t)image * a.M + m0 + row) * a.plane + inner;
            copy_async<FLOATS>(dY + row * S::PITCH + col, a.dY + (inside ? number : 0), inside);
        }
        if (part == 0 && threadIdx.x < PIXELS) {
            const unsigned pixel = first + threadIdx.x;
            windows[threadIdx.x] = pixel < end ? window_in_patch(s, pixel, begin) : 0;
        }
        if (my_c >= a.C) return;
        for (int position = part * WARP + lane; position < positions; position += PARTS * WARP) {
            const int pixel = pixel_at(s, begin, position, a.N, a.C, a.H, a.W);
            const float *in = a.X + my_c * plane + (pixel < 0 ? 0 : pixel);
#pragma unroll
            for (int c = 0; c < 8; c++, in += plane)
                copy_async<1>(patch + c * a.pitch + position, in, pixel >= 0 && my_c + c < a.C);
        }
    };

    float sums[TILE_M / 16][KK][4] = {};
    const auto multiply_part = [&](int stage, int part) {
        const float *dY = shared + stage % STAGES * stage_size;
        const int *windows = (const int *)(dY + S::DY) + part * 8;
        const float *patch = (const float *)(dY + S::DY + PIXELS) + (warp * 8 + g) * a.pitch;
        const float *left = patch + windows[t], *right = patch + windows[t + 4];
        dY += g * S::PITCH + part * 8 + t;
        struct Factors<4> A[TILE_M / 16];
#pragma unroll
        for (int i = 0; i < TILE_M / 16; i++)
#pragma unroll
            for (int r = 0; r < 4; r++)
                set<PRODUCTS>(A[i], r, dY[(i * 16 + r % 2 * 8) * S::PITCH + r / 2 * 4]);
#pragma unroll
        for (int tap = 0; tap < KK; tap++) {
            struct Factors<2> B;
            set<PRODUCTS>(B, 0, left[s.offset[tap]]);
            set<PRODUCTS>(B, 1, right[s.offset[tap]]);
#pragma unroll
            for (int i = 0; i < TILE_M / 16; i++) {
                if (PRODUCTS == 1) {
                    multiply<1>(sums[i][tap], A[i], B);
                    continue;
                }
                // Tensor cores cut off what a sum has no room for, and additions round.
                float D[4] = {0, 0, 0, 0};
                multiply<3>(D, A[i], B);
                for (int r = 0; r < 4; r++) sums[i][tap][r] += D[r];
            }
        }
    };

    const int stages = (end - from + PIXELS - 1) / PIXELS;
    for (int part = 0; part < PARTS; part++) copy_part(0, part);
    for (int stage = 0; stage < stages; stage++) {
        copies_commit();
        copies_wait<0>();
        __syncthreads(); // this stage is there for all, and all are done with the one before it
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            if (stage + 1 < stages) copy_part(stage + 1, part);
            if (my_c < a.C) multiply_part(stage, part);
        }
    }

    float *to = a.sums + (size_t)blockIdx.z * KK * a.M * a.C;
#pragma unroll
    for (int tap = 0; tap < KK; tap++)
#pragma unroll
        for (int i = 0; i < TILE_M / 16; i++)
#pragma unroll
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

// 4 more than a multiple of 32: no two lanes of a warp read from the same bank.
static int pitch_of(int positions) { return (positions + 27) / 32 * 32 + 4; }

template <int PIXELS> static size_t shared_bytes(const struct conv2d_shape *s) {
    struct Sweep sweep;
    const int positions = plan_forward(&sweep, s, PIXELS);
    return STAGES * sizeof(float) * Stage<PIXELS>::size(pitch_of(positions));
}

bool patch_weights_fit(const CudaLane *lane, const struct conv2d_shape *s) {
    // With few channels, most of each tile would be zeros; with TF32 and small images cuBLAS is
    // faster.
    if (s->C < 8 || (lane->tf32 && s->out_h * s->out_w < WEIGHT_PIXELS_FOR_TF32)) return false;
    return patches_fit(lane, s, NULL) && shared_bytes<32>(s) <= lane->shared_bytes;
}

template <int KK, int PIXELS, int FLOATS, int PRODUCTS>
static void launch_as(CudaLane *lane, const struct conv2d_backward_params_args *args) {
    const struct conv2d_shape *s = &args->s;
    struct PatchWeights a = {};
    a.dY = args->dY, a.X = args->X;
    a.N = s->N, a.C = s->C, a.H = s->H, a.W = s->W, a.M = s->M, a.plane = s->out_h * s->out_w;
    a.pitch = pitch_of(plan_forward(&a.sweep, s, PIXELS));
    const unsigned tiles_m = (s->M + TILE_M - 1) / TILE_M, tiles_c = (s->C + TILE_C - 1) / TILE_C;
    const unsigned stages = (a.sweep.pixels + PIXELS - 1) / PIXELS, tiles = tiles_m * tiles_c;
    const unsigned wanted = tiles < WEIGHT_BLOCKS ? WEIGHT_BLOCKS / tiles : 1;
    a.part = (stages + wanted - 1) / wanted * PIXELS;
    const unsigned parts = (a.sweep.pixels + a.part - 1) / a.part;
    const size_t n = (size_t)s->M * s->C, bytes = shared_bytes<PIXELS>(s);
    a.sums = (float *)cuda_scratch(lane, parts * KK * n * sizeof(float));
    CUDA_CHECK(cudaFuncSetAttribute(patch_weights<KK, PIXELS, FLOATS, PRODUCTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    patch_weights<KK, PIXELS, FLOATS, PRODUCTS>
        <<<dim3(tiles_m, tiles_c, parts), BLOCK, bytes, lane->stream>>>(a);
    add_parts<<<blocks_for(KK * n), THREADS, 0, lane->stream>>>(a.sums, parts, divisor(n), KK,
                                                                args->beta, args->dW);
}

typedef void Launch(CudaLane *lane, const struct conv2d_backward_params_args *a);

template <int KK, int PRODUCTS>
static Launch *launch_for(const CudaLane *lane, const struct conv2d_shape *s) {
    // 64 pixels a stage if there is room: the wider the tile, the less of its patch is border.
    const bool wide = shared_bytes<64>(s) <= lane->shared_bytes;
    if (s->out_h * s->out_w % 4 == 0) // four at a time, which belong to the same image
        return wide ? launch_as<KK, 64, 4, PRODUCTS> : launch_as<KK, 32, 4, PRODUCTS>;
    return wide ? launch_as<KK, 64, 1, PRODUCTS> : launch_as<KK, 32, 1, PRODUCTS>;
}

void conv2d_weights_by_patches(CudaLane *lane, const struct conv2d_backward_params_args *a) {
    const struct conv2d_shape *s = &a->s;
    if (s->kernel_h == 1)
        (lane->tf32 ? launch_for<1, 1>(lane, s) : launch_for<1, 3>(lane, s))(lane, a);
    else
        (lane->tf32 ? launch_for<9, 1>(lane, s) : launch_for<9, 3>(lane, s))(lane, a);
}
