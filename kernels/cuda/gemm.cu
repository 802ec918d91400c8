// gemm.cu: the matrix product, by cuBLAS.
#include "grid.cuh"

// cuBLAS is column-major, we are row-major. The memory of a row-major (M,N) matrix, read by
// columns, is the transposed (N,M) matrix. And C = op(A) op(B) is the same as
//     C^T = op(B)^T op(A)^T.
// So we give cuBLAS the same memory, with the two factors swapped and M and N swapped, and nothing
// has to be moved. A factor that is transposed for us is transposed for cuBLAS too. The leading
// dimension is the length of a row as it is stored.
void cuda_gemm(CudaLane *lane, int trans_A, int trans_B, int M, int N, int K, const float *A,
               const float *B, float beta, float *C) {
    if (M == 0 || N == 0) return;
    if (K == 0) { // a sum of nothing; cuBLAS refuses rows of length 0
        if (beta == 0) CUDA_CHECK(cudaMemsetAsync(C, 0, sizeof(float) * M * N, lane->stream));
        return;
    }
    CUDA_CHECK(cudaGetLastError()); // of earlier launches: cuBLAS might clear it
    const float one = 1;
    cuda_lane_open_blas(lane);
    CUBLAS_CHECK(cublas_load()->cublasSgemm_v2(
        lane->cublas, trans_B ? CUBLAS_OP_T : CUBLAS_OP_N, trans_A ? CUBLAS_OP_T : CUBLAS_OP_N, N,
        M, K, &one, B, trans_B ? K : N, A, trans_A ? M : K, &beta, C, N));
}

CUDA_KERNEL(gemm) {
    cuda_gemm(lane, a->trans_A, a->trans_B, a->M, a->N, a->K, a->A, a->B, a->beta, a->C);
}
