// table.c: all CPU kernels by number, and what they share.
#include "cpu.h"

#include <cblas.h>
#include <stdlib.h>
#include <sys/mman.h>

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
    lane->scratch = cpu_memory(bytes);
    if (!lane->scratch) cpu_kernels_out_of_memory(bytes);
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

// A page of 4 KiB needs an entry in the core's table of pages, and so does one of 2 MiB; the table
// is short. Linux gives large pages to those who ask.
void *cpu_memory(size_t bytes) {
    enum { LARGE_PAGE = 2 << 20 };
    void *memory = NULL;
    bool large = bytes >= LARGE_PAGE;
    if (posix_memalign(&memory, large ? LARGE_PAGE : 64, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (large) madvise(memory, bytes, MADV_HUGEPAGE); // if it is not to be had, so be it
#endif
    return memory;
}

void cpu_scratch_free(CpuLane *lane) {
    free(lane->scratch);
    lane->scratch = NULL;
    lane->scratch_bytes = 0;
}
