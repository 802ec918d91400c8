// cost.h: what a kernel has to do, as numbers: the arithmetic it does and the bytes it must move.
// Both follow from its argument struct alone, so they are the same on every machine; how long that
// takes on a stated machine is for common/device/machine.h.
#ifndef COST_H
#define COST_H

#include "kernels.h"

// What bounds a kernel: matrix products and convolutions reach a good part of a processor's peak,
// all others wait for memory.
typedef enum { COST_ELEMENTS, COST_PRODUCT, COST_CONVOLUTION, NUM_COST_KINDS } CostKind;

typedef struct KernelCost {
    CostKind kind;
    // Floating-point operations of the definition in kernels.h: an addition, a multiplication, a
    // division, a comparison, an exp, log or sqrt counts as one, a multiplication with an addition
    // as two. A faster algorithm (Winograd) does the same work in fewer.
    double flop;
    // Bytes read and written if each operand is read once from memory and each result written once;
    // a result with beta 1 is read, too.
    double bytes;
} KernelCost;

// Of this kernel with these arguments (of the type struct NAME_args). All zero sizes cost nothing.
KernelCost kernel_cost(KernelId kernel, const void *args);

#endif
