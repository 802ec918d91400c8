// names.c: the name of each kernel, made from the list in kernels.h.
#include "kernels.h"

const char *kernel_name(KernelId kernel) {
#define KERNEL_NAME(name) #name,
    static const char *const names[NUM_KERNELS] = {KERNELS(KERNEL_NAME)};
#undef KERNEL_NAME
    return names[kernel];
}
