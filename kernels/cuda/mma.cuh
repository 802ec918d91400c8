// mma.cuh: what patch.cu and patch_weights.cu need of GPUs from sm_80 on: copies into shared memory
// that a thread need not wait for (cp.async), and matrix products on tensor cores. Multiply with
// multiply_tile(): it takes the instruction of a warp (mma.sync) or, on Hopper, that of four warps
// (wgmma), which reads its second factor from shared memory by itself and is twice as fast.
//
// Tensor cores take factors with 10 bits of mantissa, TF32. With PRODUCTS 1, factors are rounded to
// that. With 3, each is the sum of two such numbers, a large and a small one, and only the product
// of the two small ones is left out: nearly float32 (Ootomo & Yokota, "Recovering single precision
// accuracy from Tensor Cores", 2022).
#ifndef KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_MMA_CUH

#include "grid.cuh"

constexpr int GROUP = 4 * WARP; // the threads of a *warpgroup*
enum Instruction { MMA, WGMMA };

#if __CUDA_ARCH__ == 900 && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma is in sm_90a only, so compile for that instead of sm_90"
#endif

#ifndef CUDASIM
// ---- copies that go on while the thread computes ---------------------------------------------

static inline __device__ unsigned shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

// Copies 1 or 4 floats, or writes zeros if not `inside` (`from` is not read then). They are there
// for the thread after copies_wait(), and for other threads after a barrier as well.
template <int FLOATS>
static inline __device__ void copy_async(float *to, const float *from, bool inside) {
    const unsigned bytes = inside ? 4 * FLOATS : 0;
#if __CUDA_ARCH__ >= 800
    if (FLOATS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
                     "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)),
                     "l"(from), "r"(bytes));
#endif
}

// Ends a group of copies. Groups end in order.
static inline __device__ void copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;\n" ::);
#endif
}

// Waits until at most `GROUPS` of this thread's groups are still under way.
template <int GROUPS> static inline __device__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;\n" ::"n"(GROUPS));
#endif
}

// ---- one instruction each ---------------------------------------------------------------------

// A float with 10 bits of mantissa, rounded to nearest. (Tensor cores would cut off the other 13
// bits, which makes all products a little too small.)
static inline __device__ unsigned to_tf32(float x) {
    unsigned bits = 0;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
#endif
    return bits;
}

// Four 8 x 4 matrices side by side in shared memory. Of each, lane l gets element l.
static inline __device__ void load_matrices(unsigned matrices[4], const float *shared) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared_address(shared + threadIdx.x % WARP * 4)));
#endif
}

// D (16,8) += A (16,8) B (8,8), by the 32 lanes of a warp. With g = lane / 4 and t = lane % 4, a
// lane has
//     A (g,t), (g+8,t), (g,t+4), (g+8,t+4);   B (t,g), (t+4,g);
//     D (g,2t), (g,2t+1), (g+8,2t), (g+8,2t+1).
static inline __device__ void mma_tf32(float D[4], const unsigned A[4], const unsigned B[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
#endif
}

// The same for the four warps of a group: D (64,64) += A (64,8) B (8,64). Warp w has rows 16w to
// 16w+15 of A and D, as above (D[j] is columns 8j to 8j+7). It goes on while the threads do other
// things: groups_wait().
static inline __device__ void wgmma_tf32(float D[8][4], const unsigned A[4], const float *B) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    // Where B is: matrices of 8 x 4 follow each other, first along k (128 bytes), then n (256).
    const unsigned long long at = (shared_address(B) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
#define ROW(j) "+f"(D[j][0]), "+f"(D[j][1]), "+f"(D[j][2]), "+f"(D[j][3])
    asm volatile("{.reg .pred add;\n setp.ne.b32 add, 1, 0;\n" // to what D holds
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"
                 "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1;}\n"
                 : ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(at));
#undef ROW
#endif
}

// What was written to shared memory (by this thread) can be read by wgmma, after a barrier.
static inline __device__ void groups_see_shared() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

// Registers written before can be read by wgmma.
static inline __device__ void groups_see_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

static inline __device__ void groups_commit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

template <int LEFT> static inline __device__ void groups_wait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(LEFT) : "memory");
#endif
}
#endif

// ---- tiles -----------------------------------------------------------------------------------

// The first factor of a tile: four numbers of each lane, in the order of mma_tf32().
struct Factors {
    unsigned large[4], small[4];
};

template <int PRODUCTS> static inline __device__ void set(struct Factors &A, int i, float x) {
    A.large[i] = to_tf32(x);
    if (PRODUCTS == 3) A.small[i] = to_tf32(x - __uint_as_float(A.large[i]));
}

// The second factor, B (8,64), is in shared memory: TILE_B numbers in matrices of 8 x 4, where
// number (k,n) is at tile_index(k,n), and with three products TILE_B small numbers behind them.
constexpr int TILE_B = 8 * 64;
template <int PRODUCTS> constexpr int TILE_SIZE = PRODUCTS == 3 ? 2 * TILE_B : TILE_B;
static inline __host__ __device__ int tile_index(int k, int n) {
    return n / 8 * 64 + k / 4 * 32 + n % 8 * 4 + k % 4;
}

// Of number i of a tile: k and n.
static inline __device__ int tile_k(int i) { return i / 32 % 2 * 4 + i % 4; }
static inline __device__ int tile_n(int i) { return i / 64 * 8 + i % 32 / 4; }

// D (16 rows of this warp, 64) += A B
template <enum Instruction BY, int PRODUCTS>
static inline __device__ void multiply_tile(float D[8][4], const struct Factors &A,
                                            const float *B) {
    if (BY == WGMMA && PRODUCTS == 3) {
        wgmma_tf32(D, A.small, B);
        wgmma_tf32(D, A.large, B + TILE_B);
    }
    if (BY == WGMMA) wgmma_tf32(D, A.large, B);
#pragma unroll
    for (int j = 0; BY == MMA && j < 8; j += 2) {
        unsigned large[4], small[4]; // of 16 columns: rows 0 to 3 and 4 to 7 of 8, then of 8 more
        load_matrices(large, B + j * 64);
        if (PRODUCTS == 3) load_matrices(small, B + TILE_B + j * 64);
        for (int e = 0; e < 2; e++) {
            if (PRODUCTS == 3) {
                mma_tf32(D[j + e], A.small, large + 2 * e);
                mma_tf32(D[j + e], A.large, small + 2 * e);
            }
            mma_tf32(D[j + e], A.large, large + 2 * e);
        }
    }
}

#endif
