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

// *y += factor *x, all in memory of GPUs.
void planted_add(float *y, const float *x, float factor, cudaStream_t stream);

// *ticket = (*next)++, all in memory of GPUs, by an atomic.
void planted_ticket(unsigned *next, unsigned *ticket, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
