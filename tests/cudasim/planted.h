// planted.h: kernels for test_cudasim.c.
#ifndef PLANTED_H
#define PLANTED_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Work with a mistake, and words of the message that it must lead to.
typedef struct Planted {
    const char *name;
    void (*run)(void);
    const char *words;
} Planted;
extern const Planted planted[];
extern const int num_planted;

// Sums over 6 blocks of 256 threads: of the threads' numbers, and how many of these are even.
void planted_sums(unsigned *total, unsigned *even);

// bytes[i] = i, by a thread for each.
void planted_bytes(unsigned char bytes[32]);

// D (16,8) = A (16,8) B (8,8) by a warp's mma_tf32(), which gets the numbers as they are.
void planted_product(float D[128], const float A[128], const float B[64]);

unsigned planted_tf32(float x); // to_tf32(x)

// y[i] = x[63 - i] by copies into shared memory, and y[64 + i] = 0 by such that are not inside.
void planted_copies(float y[128], const float x[64]);

// A launch with dynamic shared memory, after the kernel's limit was set (not if it is 0).
cudaError_t planted_dynamic(size_t bytes, int limit);

// *y += factor *x, all in memory of GPUs.
void planted_add(float *y, const float *x, float factor, cudaStream_t stream);

// *ticket = (*next)++, all in memory of GPUs, by an atomic.
void planted_ticket(unsigned *next, unsigned *ticket, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
