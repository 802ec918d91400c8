// lane.cu: opens and closes lanes, gives them scratch memory, and reports errors.
#include "cuda.h"

// ---- lanes -----------------------------------------------------------------------------------

static int attribute(cudaDeviceAttr which) {
    int gpu = 0, value = 0;
    CUDA_CHECK(cudaGetDevice(&gpu));
    CUDA_CHECK(cudaDeviceGetAttribute(&value, which, gpu));
    return value;
}

// The size that cuBLAS would choose by itself, according to its manual: 32 MiB on Hopper and later
// GPUs, 4 MiB on others.
static size_t workspace_of_this_gpu() {
    return (size_t)(attribute(cudaDevAttrComputeCapabilityMajor) >= 9 ? 32 : 4) << 20;
}

static __global__ void nothing() {}

// For which architecture the code was compiled that runs on this GPU: the GPU's, or an older one.
static int arch_of_this_code() {
    cudaFuncAttributes of;
    CUDA_CHECK(cudaFuncGetAttributes(&of, (const void *)nothing));
    return of.ptxVersion;
}

// Without a workspace from us, cuBLAS would allocate memory inside each graph that records it. And
// as the workspace may decide which algorithm it uses, a step in a graph might have other bits.
static void give_workspace(CudaLane *lane) {
    const size_t bytes = workspace_of_this_gpu();
    CUDA_CHECK(cudaMalloc(&lane->workspace, bytes));
    lane->workspace_bytes = bytes;
    CUBLAS_CHECK(cublas_load()->cublasSetWorkspace_v2(lane->cublas, lane->workspace, bytes));
}

void cuda_lane_open(CudaLane *lane, int tf32) {
    *lane = {};
    lane->tf32 = tf32;
    lane->arch = arch_of_this_code();
    lane->shared_bytes = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    cublas_load(); // if it is missing, the program ends before any work is done
    // Non-blocking: no hidden ordering against the default stream, which would make lanes that
    // share a GPU wait for each other.
    CUDA_CHECK(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
}

void cuda_lane_open_blas(CudaLane *lane) {
    if (lane->cublas) return;
    const Cublas *blas = cublas_load();
    // One handle per lane: cuBLAS gives the same bits run after run only if a handle keeps to one
    // stream.
    CUBLAS_CHECK(blas->cublasCreate_v2(&lane->cublas));
    CUBLAS_CHECK(blas->cublasSetStream_v2(lane->cublas, lane->stream));
    give_workspace(lane); // after the stream is set, because that resets the workspace
    CUBLAS_CHECK(blas->cublasSetMathMode(lane->cublas, lane->tf32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                  : CUBLAS_DEFAULT_MATH));
}

void cuda_lane_close(CudaLane *lane) {
    CUDA_CHECK(cudaStreamSynchronize(lane->stream));
    if (lane->cublas) CUBLAS_CHECK(cublas_load()->cublasDestroy_v2(lane->cublas));
    CUDA_CHECK(cudaFree(lane->workspace));
    CUDA_CHECK(cudaFree(lane->scratch));
    CUDA_CHECK(cudaStreamDestroy(lane->stream));
    *lane = {};
}

void *cuda_scratch(CudaLane *lane, size_t bytes) {
    if (bytes <= lane->scratch_bytes) return lane->scratch;
    // Work in the stream may still use the old memory.
    CUDA_CHECK(cudaStreamSynchronize(lane->stream));
    CUDA_CHECK(cudaFree(lane->scratch));
    lane->scratch = NULL;
    lane->scratch_bytes = 0;
    CUDA_CHECK(cudaMalloc(&lane->scratch, bytes));
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

// ---- errors ----------------------------------------------------------------------------------

static const char *hint_for(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "use a smaller --batch-size, or see in nvidia-smi who else uses this GPU's memory";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
        return "this program was built for other GPUs: build it again on this machine";
    case cudaErrorInsufficientDriver:
        return "the driver is older than the CUDA that this program was built with: update it";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
        return "a kernel left its memory: `compute-sanitizer PROGRAM` says which one and where";
    default:
        return "the failing call may be an earlier one: with CUDA_LAUNCH_BLOCKING=1 it is this one";
    }
}

void cuda_check(cudaError_t error, const char *what, const char *file, int line) {
    if (error == cudaSuccess) return;
    kernels_fail(hint_for(error), "%s: %s (%s) (%s:%d)", what, cudaGetErrorString(error),
                 cudaGetErrorName(error), file, line);
}

void cublas_check(cublasStatus_t status, const char *what, const char *file, int line) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    // cuBLAS allocates memory when a handle is created, and says little if that fails.
    kernels_fail("is the GPU's memory full, or the driver older than cuBLAS? see nvidia-smi",
                 "%s: %s (%s:%d)", what, cublas_load()->cublasGetStatusString(status), file, line);
}
