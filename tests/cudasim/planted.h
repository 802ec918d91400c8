// planted.h: work for test_cudasim.c.
#pragma once

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

// A launch with dynamic shared memory, and how much its kernel is allowed on the current GPU.
cudaError_t planted_dynamic(size_t bytes);
cudaError_t planted_dynamic_limit(int bytes);

#ifdef __cplusplus
}
#endif
