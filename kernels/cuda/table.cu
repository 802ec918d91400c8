// table.cu: all CUDA kernels by number, from the list in kernels.h.
#include "cuda.h"

#define KERNEL_DECLARATION(name) extern "C" CudaKernel name##_cuda;
KERNELS(KERNEL_DECLARATION)

#define KERNEL_ENTRY(name) name##_cuda,
CudaKernel *const cuda_kernels[NUM_KERNELS] = {KERNELS(KERNEL_ENTRY)};
