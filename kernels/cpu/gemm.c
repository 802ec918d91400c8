// gemm.c: the matrix product. First what is computed, in plain loops; then how it is computed fast.
#include "cpu.h"
#include "fast/product.h"

#include <string.h>

// Each element of C is the dot product of a row of op(A) and a column of op(B). The defect of these
// loops: they run through B in steps of a whole row, so nearly every read misses the cache.
void gemm_naive(const struct gemm_args *a) {
    for (int m = 0; m < a->M; m++) {
        for (int n = 0; n < a->N; n++) {
            double dot = 0;
            for (int k = 0; k < a->K; k++) {
                float left = a->trans_A ? a->A[(size_t)k * a->M + m] : a->A[(size_t)m * a->K + k];
                float right = a->trans_B ? a->B[(size_t)n * a->K + k] : a->B[(size_t)k * a->N + n];
                dot += (double)left * right;
            }
            float *c = &a->C[(size_t)m * a->N + n];
            *c = (float)(a->beta != 0 ? a->beta * *c + dot : dot);
        }
    }
}

// ---- how -------------------------------------------------------------------------------------
//
// product() in fast/product.c is fast if what it multiplies is in the core's own cache, in the
// order in which it reads. So matrices are cut into blocks that fit there, and copied ("packed") on
// the way:
//
//     B: BLOCK_K rows at a time, shared by all threads, in panels of VL columns, row below row
//     A: BLOCK_M rows of BLOCK_K columns for each thread, in A's own order, but without gaps, so
//        that the block does not touch hundreds of pages
//
// Each number of B is copied once and used M times. Threads take blocks of rows. Which thread takes
// which block makes no difference to the bits.
enum { BLOCK_K = 256, BLOCK_M = 128, BLOCK_N = 4096 };
enum { TREE_N = 512 }; // columns of B at a time if all of its rows are packed, for a tree

// Some rows and columns of A; lines in memory are `stride` floats apart.
typedef struct Block {
    const float *start;
    size_t stride;
} Block;

// Rows k0..k0+depth and columns n0..n0+cols of op(B).
typedef struct Panels {
    int k0, depth, n0, cols;
} Panels;

static void copy_panel(const struct gemm_args *a, Panels b, int col, float *to) {
    int lanes = smaller(VL, b.cols - col);
    const float *from = a->B + (size_t)b.k0 * (size_t)a->N + (size_t)(b.n0 + col);
    for (int k = 0; k < b.depth; k++, from += a->N, to += VL) {
        if (lanes == VL)
            vec_to(to, vec_at(from));
        else
            for (int i = 0; i < VL; i++) to[i] = i < lanes ? from[i] : 0;
    }
}

// For B that is stored (N,K): a column of the panel is a row in memory.
static void transpose_panel(const struct gemm_args *a, Panels b, int col, float *to) {
    const float *lane[VL];
    for (int i = 0; i < VL;
         i++) // lanes after the last column repeat it; their results are not used
        lane[i] = a->B + (size_t)(b.n0 + smaller(col + i, b.cols - 1)) * (size_t)a->K + b.k0;
    int k = 0;
    for (; k + 4 <= b.depth; k += 4) {
        Vec r[4];
        load_transposed(lane, (size_t)k, r);
        for (int i = 0; i < 4; i++) vec_to(to + (size_t)(k + i) * VL, r[i]);
    }
    for (; k < b.depth; k++)
        for (int i = 0; i < VL; i++) to[(size_t)k * VL + (size_t)i] = lane[i][k];
}

// All threads of a team call this, and each packs some panels. When it returns, all are packed.
static void pack_B(const struct gemm_args *a, Panels b, float *packed) {
#pragma omp for schedule(static)
    for (int col = 0; col < b.cols; col += VL) {
        float *to = packed + (size_t)col * (size_t)b.depth;
        if (a->trans_B)
            transpose_panel(a, b, col, to);
        else
            copy_panel(a, b, col, to);
    }
}

// Rows m0..m0+rows of op(A), columns k0..k0+depth, without gaps and in A's own order. They are not
// copied if they have no gaps in A, or if they will be read just once.
static Block pack_A(const struct gemm_args *a, int m0, int rows, Panels b, float *packed) {
    int lines = a->trans_A ? b.depth : rows, length = a->trans_A ? rows : b.depth;
    size_t stride = (size_t)(a->trans_A ? a->M : a->K);
    const float *from = a->A + (a->trans_A ? (size_t)b.k0 * stride + (size_t)m0
                                           : (size_t)m0 * stride + (size_t)b.k0);
    if ((size_t)length == stride || b.cols <= 2 * VL) return (Block){from, stride};
    for (int i = 0; i < lines; i++, from += stride)
        memcpy(packed + (size_t)i * (size_t)length, from, sizeof(float) * (size_t)length);
    return (Block){packed, (size_t)length};
}

// Describes the product of a block of A and the panels, for product().
static Product block_product(const struct gemm_args *a, Block A, int rows, const float *B,
                             Panels b) {
    return (Product){.A = A.start,
                     .a_row = a->trans_A ? 1 : A.stride,
                     .a_col = a->trans_A ? A.stride : 1,
                     .B = B,
                     .b_block = VL * (size_t)b.depth,
                     .c_block = VL,
                     .rows = rows,
                     .vectors = (b.cols + VL - 1) / VL,
                     .depth = b.depth,
                     .last = b.cols % VL};
}

// Rows that a thread takes at a time: few enough that every thread gets some.
static int rows_of_block(const struct gemm_args *a, int threads) {
    int rows = ((a->M + threads - 1) / threads + 7) / 8 * 8;
    return smaller(rows, BLOCK_M);
}

// C += op(A) op(B) for some columns of C, or C = op(A) op(B) if `overwrite`.
static void multiply(const struct gemm_args *a, Panels b, SumTree tree, int block, bool overwrite,
                     const float *B, float *A) {
#pragma omp for schedule(static)
    for (int m0 = 0; m0 < a->M; m0 += block) {
        int rows = smaller(block, a->M - m0);
        Product p = block_product(a, pack_A(a, m0, rows, b, A), rows, B, b);
        p.C = a->C + (size_t)m0 * (size_t)a->N + (size_t)b.n0;
        p.c_row = (size_t)a->N;
        p.add = !overwrite;
        p.tree = tree;
        product(&p);
    }
}

// C = beta C, if beta is neither 0 nor 1 or if there is nothing to add.
static void scale_C(const struct gemm_args *a) {
    size_t n = (size_t)a->M * (size_t)a->N;
    for (size_t i = 0; i < n; i++) a->C[i] = a->beta != 0 ? a->beta * a->C[i] : 0;
}

// With trans_A the sum runs over the rows of a minibatch (the gradient of a weight). Then it is
// added up as a tree, and so it is with `groups`.
static SumTree tree_of(const struct gemm_args *a) {
    return a->trans_A || a->groups > 0 ? sum_tree_of(a->K, a->groups) : (SumTree){0};
}

// For a tree, B is not cut into blocks of rows.
CPU_KERNEL(gemm) {
    if (a->M == 0 || a->N == 0) return;
    if (a->K == 0 || (a->beta != 0 && a->beta != 1)) scale_C(a);
    if (a->K == 0) return;
    SumTree tree = tree_of(a);
    bool whole = tree.groups > 0;
    int depth = whole ? a->K : smaller(BLOCK_K, a->K);
    int cols = smaller(a->N, whole ? TREE_N : BLOCK_N), threads = lane->threads;
    if ((size_t)a->M * (size_t)a->N * (size_t)a->K < 8 * PARALLEL_FLOATS) threads = 1;
    int block = rows_of_block(a, threads);
    size_t of_B = round_to_vectors((size_t)cols) * (size_t)depth;
    size_t of_A = round_to_vectors((size_t)block * (size_t)depth);
    float *B = cpu_scratch(lane, sizeof(float) * (of_B + of_A * (size_t)threads));
#pragma omp parallel num_threads(threads)
    for (int n0 = 0; n0 < a->N; n0 += cols)
        for (int k0 = 0; k0 < a->K; k0 += depth) {
            Panels b = {k0, smaller(depth, a->K - k0), n0, smaller(cols, a->N - n0)};
            pack_B(a, b, B);
            multiply(a, b, tree, block, a->beta == 0 && k0 == 0, B,
                     B + of_B + of_A * (size_t)omp_get_thread_num());
        }
}
