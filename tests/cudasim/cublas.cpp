// cublas.cpp: the functions of cuBLAS that the project uses, by plain loops in double.
#include "simulator.h"
#include "kernels/cuda/cuda.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

using namespace cudasim;

struct cublasContext {
    int gpu;
    cudaStream_t stream;
    void *workspace;
    size_t bytes;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    int failure = injected("cublasCreate");
    if (failure) return (cublasStatus_t)failure;
    *handle = new cublasContext{current_gpu(), nullptr, nullptr, 0};
    live++;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete handle;
    live--;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    if (gpu_of(stream) != handle->gpu) return CUBLAS_STATUS_INVALID_VALUE;
    handle->stream = stream;
    handle->workspace = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    if ((uintptr_t)workspace % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->bytes = bytes;
    return (cublasStatus_t)injected("cublasSetWorkspace");
}

// TF32 computes with 10 bits of each factor; here all modes are float32.
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
    return (cublasStatus_t)injected("cublasSetMathMode");
}

// All columns of a matrix with `rows` rows, stored `stride` apart.
static void check_matrix(int gpu, const float *matrix, int rows, int columns, int stride,
                         Verb verb) {
    for (int j = 0; j < columns; j++)
        check_range("cublasSgemm", gpu, matrix + (size_t)j * stride, sizeof(float) * rows, verb);
}

static void let_host_touch_all(std::initializer_list<const float *> matrices, bool may) {
    for (const float *matrix : matrices) {
        const Allocation *a = allocation_at(matrix);
        let_host_touch(a->begin, a->end - a->begin, may);
    }
}

// C = factor op(A) op(B) + keep C, all column by column, as cuBLAS has it. In double: a plain sum
// of thousands of floats would be less exact than a GPU's, which is made of shorter ones.
static void sgemm(bool trans_A, bool trans_B, int m, int n, int k, float factor, const float *A,
                  size_t lda, const float *B, size_t ldb, float keep, float *C, size_t ldc) {
    std::vector<double> column(m);
    for (int j = 0; j < n; j++) {
        float *c = C + j * ldc;
        for (int i = 0; i < m; i++) column[i] = keep != 0 ? (double)keep * c[i] : 0;
        for (int l = 0; l < k; l++) {
            double b = (double)factor * (trans_B ? B[j + l * ldb] : B[l + j * ldb]);
            if (trans_A)
                for (int i = 0; i < m; i++) column[i] += (double)A[l + i * lda] * b;
            else
                for (int i = 0; i < m; i++) column[i] += (double)A[i + l * lda] * b;
        }
        for (int i = 0; i < m; i++) c[i] = (float)column[i];
    }
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t trans_A,
                              cublasOperation_t trans_B, int m, int n, int k, const float *alpha,
                              const float *A, int lda, const float *B, int ldb, const float *beta,
                              float *C, int ldc) {
    bool a = trans_A != CUBLAS_OP_N, b = trans_B != CUBLAS_OP_N;
    if (m < 0 || n < 0 || k < 0 || lda < std::max(1, a ? k : m) || ldb < std::max(1, b ? n : k) ||
        ldc < std::max(1, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    int failure = injected("cublasSgemm"), gpu = handle->gpu;
    if (failure || m == 0 || n == 0) return (cublasStatus_t)failure;
    if (!handle->workspace)
        mistake("cublasSetWorkspace() after cublasSetStream(), which takes the workspace away",
                "cublasSgemm() would have to allocate memory, also while a graph is recorded");
    const char *begin = (const char *)handle->workspace, *end = begin + handle->bytes;
    float factor = *alpha, keep = *beta; // they may be gone when it runs
    enqueue(handle->stream, [=] {
        check_range("cublasSgemm's workspace", gpu, begin, 4, WRITE);
        check_range("cublasSgemm's workspace", gpu, end - 4, 4, WRITE);
        check_matrix(gpu, A, a ? k : m, a ? m : k, lda, READ);
        check_matrix(gpu, B, b ? n : k, b ? k : n, ldb, READ);
        if (keep != 0) check_matrix(gpu, C, m, n, ldc, READ);
        check_matrix(gpu, C, m, n, ldc, WRITE);
        let_host_touch_all({A, B, C}, true);
        sgemm(a, b, m, n, k, factor, A, lda, B, ldb, keep, C, ldc);
        let_host_touch_all({A, B, C}, false);
    });
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    static const std::map<int, const char *> texts{
        {0, "success"},
        {3, "the resource allocation failed"},
        {7, "an unsupported value or parameter was passed"},
        {13, "the function failed to launch on the GPU"}};
    return texts.at(status);
}

// ---- loading it ------------------------------------------------------------------------------

void *cudasim::cublas_function(const char *name) {
#define FIND(function)                                                                             \
    if (strcmp(name, #function) == 0) return (void *)function;
    CUBLAS_FUNCTIONS(FIND)
    return nullptr;
}
