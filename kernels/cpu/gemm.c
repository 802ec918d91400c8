// gemm.c: matrix product. What is computed, then how it is computed fast.
#include "cpu.h"
#include "naive.h"

#include <cblas.h>

// What: each element of C is the dot product of a row of op(A) and a column of op(B). Its defect: it
// runs through B in steps of a whole row, so nearly every read misses the cache.
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

// Rows m0..m0+rows and columns n0..n0+cols of C.
static void gemm_block(const struct gemm_args *a, int m0, int rows, int n0, int cols) {
    int lda = a->trans_A ? a->M : a->K, ldb = a->trans_B ? a->K : a->N;
    const float *A = a->A + (a->trans_A ? (size_t)m0 : (size_t)m0 * (size_t)lda);
    const float *B = a->B + (a->trans_B ? (size_t)n0 * (size_t)ldb : (size_t)n0);
    cblas_sgemm(CblasRowMajor, a->trans_A ? CblasTrans : CblasNoTrans, a->trans_B ? CblasTrans : CblasNoTrans,
                rows, cols, a->K, 1.0f, A, lda, B, ldb, a->beta, a->C + (size_t)m0 * (size_t)a->N + n0, a->N);
}

// How: BLAS packs both matrices so that reads are in order and reused. C is cut into blocks of rows, or
// of columns if it is wider than high; each block is one BLAS call on one thread.
CPU_KERNEL(gemm) {
    if (a->M == 0 || a->N == 0) return;
    enum { ROWS = 32, COLS = 64 };
    bool by_rows = a->M >= a->N / 2;
    int length = by_rows ? a->M : a->N, block = by_rows ? ROWS : COLS;
    int blocks = (length + block - 1) / block;
#pragma omp parallel for num_threads(lane->threads) schedule(static) if (blocks > 1)
    for (int i = 0; i < blocks; i++) {
        int start = i * block, size = length - start < block ? length - start : block;
        if (by_rows) gemm_block(a, start, size, 0, a->N);
        else gemm_block(a, 0, a->M, start, size);
    }
}
