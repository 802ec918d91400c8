// gemm.c: matrix product. What is computed, then how it is computed fast.
#include "cpu.h"
#include "naive.h"

#include <cblas.h>

// What: each element of C is the dot product of a row of op(A) and a column of op(B). Its defect:
// it runs through B in steps of a whole row, so nearly every read misses the cache.
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

// A block of C, its place in C, and the part k0..k0+depth of the dot products that goes into it.
typedef struct Block {
    int m0, rows, n0, cols, k0, depth;
} Block;

static void gemm_block(const struct gemm_args *a, Block b, float beta, float *C, int ldc) {
    size_t lda = (size_t)(a->trans_A ? a->M : a->K), ldb = (size_t)(a->trans_B ? a->K : a->N);
    const float *A =
        a->A + (a->trans_A ? (size_t)b.k0 * lda + (size_t)b.m0 : (size_t)b.m0 * lda + (size_t)b.k0);
    const float *B =
        a->B + (a->trans_B ? (size_t)b.n0 * ldb + (size_t)b.k0 : (size_t)b.k0 * ldb + (size_t)b.n0);
    cblas_sgemm(CblasRowMajor, a->trans_A ? CblasTrans : CblasNoTrans,
                a->trans_B ? CblasTrans : CblasNoTrans, b.rows, b.cols, b.depth, 1.0f, A, (int)lda,
                B, (int)ldb, beta, C, ldc);
}

// The same with the sum over k as a tree (see cpu.h): sum holds rows x cols floats for each level.
static void gemm_block_tree(const struct gemm_args *a, Block b, SumTree tree, float *sum) {
    if (tree.groups == 1) {
        gemm_block(a, b, 0, sum, b.cols);
        return;
    }
    int half = tree.groups / 2, depth = half * tree.group;
    size_t size = (size_t)b.rows * (size_t)b.cols;
    Block first = b, second = b;
    first.depth = depth;
    second.k0 += depth;
    second.depth -= depth;
    gemm_block_tree(a, first, (SumTree){tree.group, half}, sum);
    gemm_block_tree(a, second, (SumTree){tree.group, tree.groups - half}, sum + size);
    add_halves(sum, size, 2, size);
}

static void store_block(const struct gemm_args *a, Block b, const float *sum) {
    for (int row = 0; row < b.rows; row++)
        for (int col = 0; col < b.cols; col++) {
            float *c = &a->C[(size_t)(b.m0 + row) * (size_t)a->N + (size_t)(b.n0 + col)];
            *c = a->beta != 0 ? *c + sum[row * b.cols + col] : sum[row * b.cols + col];
        }
}

// C is cut into blocks of rows, or of columns if it has few rows. Blocks of 16 rows are what one
// device and two devices with half the rows have in common (as groups of a tree).
typedef struct Cut {
    bool by_rows;
    int block, blocks;
} Cut;

static Cut cut_for(const struct gemm_args *a) {
    Cut cut = {.by_rows = a->M >= 16};
    int length = cut.by_rows ? a->M : a->N;
    cut.block = !cut.by_rows ? 64 : a->trans_A || length > 512 ? 32 : 16;
    cut.blocks = (length + cut.block - 1) / cut.block;
    return cut;
}

static Block block_of(const struct gemm_args *a, Cut cut, int i) {
    int length = cut.by_rows ? a->M : a->N, start = i * cut.block;
    int size = length - start < cut.block ? length - start : cut.block;
    if (cut.by_rows) return (Block){.m0 = start, .rows = size, .cols = a->N, .depth = a->K};
    return (Block){.n0 = start, .cols = size, .rows = a->M, .depth = a->K};
}

// How: BLAS packs both matrices so that reads are in order and reused; each block is a BLAS call on
// one thread. With trans_A the sum runs over the rows of a minibatch (the gradient of a weight), so
// it is made as a tree.
CPU_KERNEL(gemm) {
    if (a->M == 0 || a->N == 0) return;
    Cut cut = cut_for(a);
    SumTree tree = a->trans_A ? sum_tree(a->K) : (SumTree){.groups = 1};
    int levels = 7; // of a tree of at most 32 groups
    Block largest = block_of(a, cut, 0);
    size_t per_thread = (size_t)largest.rows * (size_t)largest.cols * (size_t)levels;
    float *scratch = tree.groups > 1
                         ? cpu_scratch(lane, sizeof(float) * per_thread * (size_t)lane->threads)
                         : NULL;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (cut.blocks > 1)
    for (int i = 0; i < cut.blocks; i++) {
        Block b = block_of(a, cut, i);
        if (tree.groups == 1) {
            gemm_block(a, b, a->beta, a->C + (size_t)b.m0 * (size_t)a->N + (size_t)b.n0, a->N);
        } else {
            float *sum = scratch + (size_t)omp_get_thread_num() * per_thread;
            gemm_block_tree(a, b, tree, sum);
            store_block(a, b, sum);
        }
    }
}
