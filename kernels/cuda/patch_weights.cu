// patch_weights.cu: a convolution's gradient by its weights, by patches and on tensor cores.
//
// A block of threads computes the gradients of TILE_M x TILE_C kernels, all taps of each, and keeps
// them in registers: dY and X are read once for all taps. It runs through a part of the output
// pixels of all images, PIXELS at a time. For each tap and eight pixels that is a matrix product
//     (TILE_C, 8) times (8, TILE_M)
// of the patch under these pixels and of dY. A second kernel adds up the parts, in order.
#include "conv2d_patch.h"
#include "patch.cuh"

constexpr int TILE_M = 64, TILE_C = 64, STAGES = 2;

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
    struct Sweep sweep;
};

// A group of four warps does this many of the taps, as its registers have room for their sums.
template <int TAPS> constexpr int GROUP_TAPS = TAPS < 5 ? TAPS : 5;
template <int TAPS> constexpr int BLOCK = GROUP *((TAPS + 4) / 5);

// A stage in shared memory: dY, a tile for each eight pixels; where each pixel's window begins; the
// patch.
template <int PIXELS, int PRODUCTS> constexpr int DY_SIZE = PIXELS / 8 * TILE_SIZE<PRODUCTS>;
template <int PIXELS, int PRODUCTS> static size_t stage_bytes(int pitch) {
    return sizeof(float) * (DY_SIZE<PIXELS, PRODUCTS> + PIXELS + (size_t)TILE_C * pitch);
}

// Calls for_each(number in the stage, channel, pixel) for what this thread copies of dY, FLOATS
// pixels in a row.
template <int PIXELS, int PRODUCTS, int FLOATS, int THREADS_IN_ALL, class ForEach>
static __device__ void each_of_dY(ForEach for_each) {
    constexpr int PER_ROW = PIXELS / FLOATS;
#pragma unroll
    for (int i = threadIdx.x; i < PER_ROW * TILE_M; i += THREADS_IN_ALL) {
        const int pixel = i % PER_ROW * FLOATS, m = i / PER_ROW;
        for_each(pixel / 8 * TILE_SIZE<PRODUCTS> + tile_index(pixel % 8, m), m, pixel);
    }
}

template <enum Instruction BY, int TAPS, int PIXELS, int FLOATS, int PRODUCTS>
static __global__ void __launch_bounds__(BLOCK<TAPS>) patch_weights(struct PatchWeights a) {
    constexpr int SUMS = GROUP_TAPS<TAPS>, ALL = BLOCK<TAPS>;
    extern __shared__ float shared[];
    const struct Sweep &s = a.sweep;
    const int m0 = blockIdx.x * TILE_M, c0 = blockIdx.y * TILE_C;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const int first_tap = warp / 4 * SUMS, taps = TAPS - first_tap < SUMS ? TAPS - first_tap : SUMS;
    const unsigned from = blockIdx.z * a.part;
    const unsigned end = from + a.part < s.pixels ? from + a.part : s.pixels;
    const int stage_size = DY_SIZE<PIXELS, PRODUCTS> + PIXELS + TILE_C * a.pitch;

    const auto copy_stage = [&](int number) {
        const unsigned first = from + number * PIXELS, begin = patch_begin(s, first);
        float *stage = shared + number % STAGES * stage_size;
        int *windows = (int *)(stage + DY_SIZE<PIXELS, PRODUCTS>);
        float *patch = (float *)windows + PIXELS;
        each_of_dY<PIXELS, PRODUCTS, FLOATS, ALL>([&](int at, int m, int pixel) {
            const auto [image, inner] = split(first + pixel, s.plane);
            const bool inside = first + pixel < end && m0 + m < a.M;
            const size_t number = ((size_t)image * a.M + m0 + m) * a.plane + inner;
            copy_async<FLOATS>(stage + at, a.dY + (inside ? number : 0), inside);
        });
        if (threadIdx.x < PIXELS) {
            const unsigned pixel = first + threadIdx.x;
            windows[threadIdx.x] = pixel < end ? window_in_patch(s, pixel, begin) : 0;
        }
        const size_t plane = (size_t)a.H * a.W;
        for (int position = lane; position < s.patch_rows * (int)s.cols.n; position += WARP) {
            const int pixel = pixel_at(s, begin, position, a.N, a.C, a.H, a.W);
#pragma unroll 8
            for (int c = warp; c < TILE_C; c += ALL / WARP) {
                const bool inside = pixel >= 0 && c0 + c < a.C;
                copy_async<1>(patch + c * a.pitch + position,
                              a.X + (inside ? pixel + (c0 + c) * plane : 0), inside);
            }
        }
    };
    // What this thread has copied of dY becomes factors.
    const auto round_dY = [&](int number) {
        float *stage = shared + number % STAGES * stage_size;
        each_of_dY<PIXELS, PRODUCTS, FLOATS, ALL>([&](int at, int, int) {
            for (int i = 0; i < FLOATS; i++) {
                const float x = stage[at + i], large = __uint_as_float(to_tf32(x));
                stage[at + i] = large;
                if (PRODUCTS == 3) stage[at + TILE_B + i] = __uint_as_float(to_tf32(x - large));
            }
        });
    };

    float sums[SUMS][8][4] = {};
    const auto multiply_stage = [&](int number) {
        const float *stage = shared + number % STAGES * stage_size;
        const int *windows = (const int *)(stage + DY_SIZE<PIXELS, PRODUCTS>);
        const float *patch = (const float *)windows + PIXELS + (warp % 4 * 16 + g) * a.pitch;
#pragma unroll 1
        for (int pixel = 0; pixel < PIXELS; pixel += 8) {
            const float *X[2] = {patch + windows[pixel + t], patch + windows[pixel + t + 4]};
            const float *dY = stage + pixel / 8 * TILE_SIZE<PRODUCTS>;
            struct Factors A[2];
#pragma unroll
            for (int tap = 0; tap < SUMS; tap++) {
                if (tap >= taps) break; // all four warps of a group have the same taps
                if (BY == WGMMA) groups_wait<1>(); // these factors are not needed any more
                const int offset = s.offset[first_tap + tap];
#pragma unroll
                for (int r = 0; r < 4; r++)
                    set<PRODUCTS>(A[tap % 2], r, X[r / 2][r % 2 * 8 * a.pitch + offset]);
                if (BY == WGMMA) groups_see_registers();
                multiply_tile<BY, PRODUCTS>(sums[tap], A[tap % 2], dY);
                if (BY == WGMMA) groups_commit();
            }
            if (BY == WGMMA && SUMS % 2 == 1) groups_wait<0>(); // the next begins with A[0] again
        }
        if (BY == WGMMA) groups_wait<0>();
    };

    const int stages = (end - from + PIXELS - 1) / PIXELS;
    copy_stage(0);
    copies_commit();
    for (int stage = 0; stage < stages; stage++) {
        copies_wait<0>();
        round_dY(stage);
        if (BY == WGMMA) groups_see_shared();
        __syncthreads(); // this stage is there for all, and all are done with the one before it
        if (stage + 1 < stages) copy_stage(stage + 1);
        copies_commit();
        multiply_stage(stage);
    }

    float *to = a.sums + ((size_t)blockIdx.z * TAPS + first_tap) * a.M * a.C;
#pragma unroll
    for (int tap = 0; tap < SUMS; tap++) {
        if (tap >= taps) break;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int c = c0 + warp % 4 * 16 + g + i / 2 % 2 * 8, m = m0 + i / 4 * 8 + 2 * t + i % 2;
            if (m < a.M && c < a.C) to[((size_t)tap * a.M + m) * a.C + c] = sums[tap][i / 4][i % 4];
        }
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

// 4 more than a multiple of 32: no two lanes of a warp read from the same bank
static int pitch_of(int positions) { return (positions + 27) / 32 * 32 + 4; }

template <int PIXELS, int PRODUCTS> static size_t shared_bytes(const struct conv2d_shape *s) {
    struct Sweep sweep;
    return STAGES * stage_bytes<PIXELS, PRODUCTS>(pitch_of(plan_forward(&sweep, s, PIXELS)));
}

bool patch_weights_fit(const CudaLane *lane, const struct conv2d_shape *s) {
    // With few channels, most of each tile would be zeros.
    return s->C >= 8 && patches_fit(lane, s, NULL) && shared_bytes<32, 3>(s) <= lane->shared_bytes;
}

template <enum Instruction BY, int TAPS, int PIXELS, int FLOATS, int PRODUCTS>
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
    const size_t n = (size_t)s->M * s->C, bytes = shared_bytes<PIXELS, PRODUCTS>(s);
    a.sums = (float *)cuda_scratch(lane, parts * TAPS * n * sizeof(float));
    CUDA_CHECK(cudaFuncSetAttribute(patch_weights<BY, TAPS, PIXELS, FLOATS, PRODUCTS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    patch_weights<BY, TAPS, PIXELS, FLOATS, PRODUCTS>
        <<<dim3(tiles_m, tiles_c, parts), BLOCK<TAPS>, bytes, lane->stream>>>(a);
    add_parts<<<blocks_for(TAPS * n), THREADS, 0, lane->stream>>>(a.sums, parts, divisor(n), TAPS,
                                                                  args->beta, args->dW);
}

typedef void Launch(CudaLane *lane, const struct conv2d_backward_params_args *a);

template <enum Instruction BY, int TAPS, int PRODUCTS>
static Launch *launch_for(const CudaLane *lane, const struct conv2d_shape *s) {
    // 64 pixels a stage if there is room: the wider the tile, the less of its patch is border.
    const bool wide = shared_bytes<64, PRODUCTS>(s) <= lane->shared_bytes;
    if (s->out_h * s->out_w % 4 == 0)
        return wide ? launch_as<BY, TAPS, 64, 4, PRODUCTS> : launch_as<BY, TAPS, 32, 4, PRODUCTS>;
    return wide ? launch_as<BY, TAPS, 64, 1, PRODUCTS> : launch_as<BY, TAPS, 32, 1, PRODUCTS>;
}

template <enum Instruction BY>
static Launch *launch_by(const CudaLane *lane, const struct conv2d_shape *s) {
    if (s->kernel_h == 1)
        return lane->tf32 ? launch_for<BY, 1, 1>(lane, s) : launch_for<BY, 1, 3>(lane, s);
    return lane->tf32 ? launch_for<BY, 9, 1>(lane, s) : launch_for<BY, 9, 3>(lane, s);
}

void conv2d_weights_by_patches(CudaLane *lane, const struct conv2d_backward_params_args *a) {
    (lane->arch == 90 ? launch_by<WGMMA>(lane, &a->s) : launch_by<MMA>(lane, &a->s))(lane, a);
}
