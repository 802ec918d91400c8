// table.c: all kernels of an instruction set, by number, and its matrix product. This is what the
// rest of the program sees of the set. cpu.mk defines ISA, the set's name.
#include "fast/product.h"

#define DECLARE(name) CpuKernel name##_cpu;
KERNELS(DECLARE)

#define FITS(name) _Static_assert(sizeof(struct name##_args) <= MAX_KERNEL_ARGS, #name);
KERNELS(FITS)

#define NAME(what, isa)  NAME_(what, isa)
#define NAME_(what, isa) cpu_##what##_##isa

#define ENTRY(name) [KERNEL_##name] = name##_cpu,
extern CpuKernel *const NAME(kernels, ISA)[NUM_KERNELS];
CpuKernel *const NAME(kernels, ISA)[NUM_KERNELS] = {KERNELS(ENTRY)};

void NAME(product, ISA)(const Product *p);
void NAME(product, ISA)(const Product *p) { product(p); }
