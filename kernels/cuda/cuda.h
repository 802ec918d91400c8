// cuda.h: what every CUDA kernel uses: its lane, scratch memory, CUDA_KERNEL, cuBLAS and checks for
// errors. To write a kernel, define it with CUDA_KERNEL. To run one, take its function from
// cuda_kernels and call it with a lane and the arguments, as common/device/device_cuda.c does. Do
// not call cuBLAS by its names: the library is loaded at run time, so call it through
// cublas_load().
//
// C and C++ both read this file: device_cuda.c opens lanes and launches, *.cu implement kernels.
#pragma once

#include <stddef.h>
#include <cuda_runtime_api.h> // cudaStream_t, cudaError_t; plain C
#include <cublas_v2.h>        // types only: the library is loaded by cublas_load.cu
#include "kernels/fail.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// A lane is one logical CUDA device: a stream (its queue), cuBLAS bound to that stream, and its own
// scratch memory, one for cuBLAS and one for our kernels. Two lanes may share a GPU, but never a
// handle or scratch memory. So they can run side by side, and each gives the same bits run after
// run.
typedef struct CudaLane {
    cudaStream_t stream;
    int tf32, arch;        // arch: what the code that runs here was compiled for, e.g. 90 for sm_90
    size_t shared_bytes;   // shared memory that a block of threads may have
    cublasHandle_t cublas; // NULL: not open yet
    void *workspace;       // of cuBLAS
    size_t workspace_bytes;
    void *scratch; // grows to the largest request, at another address each time, and is kept
    size_t scratch_bytes;
} CudaLane;

// Opens a lane on the current GPU (cudaSetDevice). The first call loads cuBLAS. Matrix products are
// in float32 or, if `tf32`, keep 10 bits of each factor.
void cuda_lane_open(CudaLane *lane, int tf32);
// Opens the lane's cuBLAS now. If you do not call this, the first matrix product does; a lane
// without matrix products needs no cuBLAS.
void cuda_lane_open_blas(CudaLane *lane);
// Waits for the lane's work, then frees everything it has. The lane's GPU must be the current one.
void cuda_lane_close(CudaLane *lane);

// Scratch memory for the running kernel (256-byte aligned, contents undefined). The next kernel of
// the lane gets the same memory, because the stream runs one kernel after the other. A kernel may
// call this once.
void *cuda_scratch(CudaLane *lane, size_t bytes);

// Runs on the host and launches its __global__ functions on the lane's stream. It reads the
// arguments before it returns. The lane's GPU must be the current one.
typedef void CudaKernel(CudaLane *lane, const void *args);
extern CudaKernel *const cuda_kernels[NUM_KERNELS];

// C (M,N) = beta C + op(A) op(B), row-major, as kernels.h describes `gemm`. For kernels that need a
// matrix product as one of their steps.
void cuda_gemm(CudaLane *lane, int trans_A, int trans_B, int M, int N, int K, const float *A,
               const float *B, float beta, float *C);

// ---- cuBLAS, loaded at run time --------------------------------------------------------------

// The functions that we use, by their names in the library.
#define CUBLAS_FUNCTIONS(FUNCTION)                                                                 \
    FUNCTION(cublasCreate_v2)                                                                      \
    FUNCTION(cublasDestroy_v2)                                                                     \
    FUNCTION(cublasSetStream_v2)                                                                   \
    FUNCTION(cublasSetWorkspace_v2)                                                                \
    FUNCTION(cublasSetMathMode)                                                                    \
    FUNCTION(cublasSgemm_v2)                                                                       \
    FUNCTION(cublasGetStatusString)

typedef struct Cublas {
#define CUBLAS_POINTER(name) __typeof__(&name) name;
    CUBLAS_FUNCTIONS(CUBLAS_POINTER)
#undef CUBLAS_POINTER
} Cublas;

// Loads the library on the first call, which must not be made by two threads at once.
const Cublas *cublas_load(void);

// ---- errors ----------------------------------------------------------------------------------

// CUDA_CHECK(cudaMalloc(&p, n)) ends the program if the call fails. CUDA is asynchronous, so the
// error may come from a kernel that was launched earlier.
#define CUDA_CHECK(call)   cuda_check((call), #call, __FILE__, __LINE__)
#define CUBLAS_CHECK(call) cublas_check((call), #call, __FILE__, __LINE__)
void cuda_check(cudaError_t error, const char *what, const char *file, int line);
void cublas_check(cublasStatus_t status, const char *what, const char *file, int line);

#ifdef __cplusplus
}
#endif

// CUDA_KERNEL(relu_forward) { ... a->X ... } defines the kernel with its own argument struct `a`. A
// launch returns no error, so we ask for one right after it (a wrong grid, no code for this GPU).
#define CUDA_KERNEL(name)                                                                          \
    static void name##_body(CudaLane *lane, const struct name##_args *a);                          \
    extern "C" CudaKernel name##_cuda;                                                             \
    void name##_cuda(CudaLane *lane, const void *args) {                                           \
        name##_body(lane, (const struct name##_args *)args);                                       \
        cuda_check(cudaGetLastError(), "kernel " #name, __FILE__, __LINE__);                       \
    }                                                                                              \
    static void name##_body(CudaLane *lane, const struct name##_args *a)
