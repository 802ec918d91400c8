// cudasim.h: the simulated machine, for tests. Without any of this it has CUDASIM_GPUS GPUs (3) and
// the seed CUDASIM_SEED (1), both of the environment. Programs see those of its GPUs that
// CUDA_VISIBLE_DEVICES lists: all, if it is not set.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The exit status of a program in which the simulator found a mistake.
enum { CUDASIM_STATUS = 99, CUDASIM_MAX_GPUS = 8 };

typedef enum { CUDASIM_PEERS, CUDASIM_NO_PEERS, CUDASIM_DAMAGED_PEERS } CudasimPeers;

// Another machine, for devices opened from now on; nothing may be allocated on the old one. `seed`
// decides the order of threads, blocks and streams.
void cudasim_machine(int gpus, unsigned seed, CudasimPeers peers);

// From now on, the n-th call (1 is the next) of the function fails with this error, once; n = 0
// forgets it. "launch" is a launch, "kernel" one that CUDA accepts and that fails while it runs.
void cudasim_fail(const char *function, int n, int error);

// How many calls of it there were in all.
int cudasim_calls(const char *function);

// Allocations, streams, events, cuBLAS handles and NCCL communicators that were made and not freed.
size_t cudasim_live(void);

#ifdef __cplusplus
}
#endif
