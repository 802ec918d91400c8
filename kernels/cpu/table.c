// table.c: all kernels of an instruction set, by number. ISA is its name (see the Makefile).
#include "cpu.h"

#define DECLARE(name) CpuKernel name##_cpu;
KERNELS(DECLARE)

#define FITS(name) _Static_assert(sizeof(struct name##_args) <= MAX_KERNEL_ARGS, #name);
KERNELS(FITS)

#define TABLE_OF(isa)  TABLE_OF_(isa)
#define TABLE_OF_(isa) cpu_kernels_##isa

#define ENTRY(name) [KERNEL_##name] = name##_cpu,
extern CpuKernel *const TABLE_OF(ISA)[NUM_KERNELS];
CpuKernel *const TABLE_OF(ISA)[NUM_KERNELS] = {KERNELS(ENTRY)};
