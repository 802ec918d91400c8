// mma.cuh: what patch.cu and patch_weights.cu need of GPUs from sm_80 on: copies into shared memory
// that a thread need not wait for (cp.async), and matrix products by a warp (mma.sync). Each
// function is one PTX instruction; the simulator in tests/cudasim has its own version of each.
//
// Tensor cores take factors with 10 bits of mantissa, TF32. With PRODUCTS 1, factors are rounded to
// that. With 3, each is the sum of two such numbers, a large and a small one, and only the product
// of the two small ones is left out: nearly float32 (Ootomo & Yokota, "Recovering single precision
// accuracy from Tensor Cores", 2022).
#pragma once

#include "grid.cuh"

#ifndef CUDASIM
#if __CUDA_ARCH__ >= 800
#define SM80(...) asm volatile(__VA_ARGS__)
#else
#define SM80(...) // older GPUs never come here: patches_fit()
#endif

// ---- copies that go on while the thread computes ---------------------------------------------

static inline __device__ unsigned shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

// Copies 1 or 4 floats, or writes zeros if not `inside` (`from` is not read then). They are there
// for the thread after copies_wait(), and for other threads after a barrier as well.
template <int FLOATS>
static inline __device__ void copy_async(float *to, const float *from, bool inside) {
    if (FLOATS == 4)
        SM80("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
             "r"(inside ? 16 : 0));
    else
        SM80("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from),
             "r"(inside ? 4 : 0));
}

// Ends a group of copies. Groups end in order.
static inline __device__ void copies_commit() { SM80("cp.async.commit_group;\n" ::); }

// Waits until at most `GROUPS` of this thread's groups are still under way.
template <int GROUPS> static inline __device__ void copies_wait() {
    SM80("cp.async.wait_group %0;\n" ::"n"(GROUPS));
}

// ---- one instruction each ---------------------------------------------------------------------

// A float with 10 bits of mantissa, rounded to nearest. (Tensor cores would cut off the other 13
// bits, which makes all products a little too small.)
static inline __device__ unsigned to_tf32(float x) {
    unsigned bits = 0;
#if __CUDA_ARCH__ >= 800 // not volatile: the compiler may move it
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
#endif
    return bits;
}

// Four 8 x 4 matrices, one after the other in shared memory. Of each, lane l gets element l.
static inline __device__ void load_matrices(unsigned first[2], unsigned second[2],
                                            const float *shared) {
    SM80("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
         : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
         : "r"(shared_address(shared + threadIdx.x % WARP * 4)));
}

// D (16,8) += A (16,8) B (8,8), by the 32 lanes of a warp. With g = lane / 4 and t = lane % 4, a
// lane has
//     A (g,t), (g+8,t), (g,t+4), (g+8,t+4);   B (t,g), (t+4,g);
//     D (g,2t), (g,2t+1), (g+8,2t), (g+8,2t+1).
static inline __device__ void mma_tf32(float D[4], const unsigned A[4], const unsigned B[2]) {
    SM80("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
         : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
         : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]));
}

#endif

// ---- factors ---------------------------------------------------------------------------------

// N factors of a lane.
template <int N> struct Factors { unsigned large[N], small[N]; };

template <int PRODUCTS, int N>
static inline __device__ void set(struct Factors<N> &factors, int i, float x) {
    factors.large[i] = to_tf32(x);
    if (PRODUCTS == 3) factors.small[i] = to_tf32(x - __uint_as_float(factors.large[i]));
}

// D (16,8) += A B, smallest products first
template <int PRODUCTS>
static inline __device__ void multiply(float D[4], const struct Factors<4> &A,
                                       const struct Factors<2> &B) {
    if (PRODUCTS == 3) {
        mma_tf32(D, A.small, B.large);
        mma_tf32(D, A.large, B.small);
    }
    mma_tf32(D, A.large, B.large);
}
