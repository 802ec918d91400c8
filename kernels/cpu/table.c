// table.c: all CPU kernels by number, and what they share.
#include "cpu.h"

#include <cblas.h>
#include <stdlib.h>

#define DECLARE(name) CpuKernel name##_cpu;
KERNELS(DECLARE)

#define FITS(name) _Static_assert(sizeof(struct name##_args) <= MAX_KERNEL_ARGS, #name);
KERNELS(FITS)

#define ENTRY(name) [KERNEL_##name] = name##_cpu,
CpuKernel *const cpu_kernels[NUM_KERNELS] = {KERNELS(ENTRY)};

void cpu_kernels_init(void) { openblas_set_num_threads(1); }

void *cpu_scratch(CpuLane *lane, size_t bytes) {
    if (bytes <= lane->scratch_bytes) return lane->scratch;
    free(lane->scratch);
    if (posix_memalign(&lane->scratch, 64, bytes) != 0) cpu_kernels_out_of_memory(bytes);
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

void cpu_scratch_free(CpuLane *lane) {
    free(lane->scratch);
    lane->scratch = NULL;
    lane->scratch_bytes = 0;
}
