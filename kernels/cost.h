// cost.h: what a kernel costs, as numbers, from its argument struct alone. kernel_cost() is what
// must be done, whoever does it: arithmetic, and bytes that cannot be avoided. kernel_traffic() is
// what some software does: how often it launches, and what it moves more than once. How long that
// takes on a stated machine is for common/model/machine.h.
#ifndef COST_H
#define COST_H

#include "kernels.h"

// What bounds a kernel: matrix products and convolutions reach a good part of a processor's peak,
// all others wait for memory.
typedef enum { COST_ELEMENTS, COST_PRODUCT, COST_CONVOLUTION, NUM_COST_KINDS } CostKind;

// How many FLOP a second a convolution reaches depends on its shape more than anything else does:
// on whether there is a method that comes to the same sums with fewer multiplications (Winograd's;
// FFT for large kernels), and whether there is enough arithmetic for each pixel that is written.
typedef enum {
    FORM_3X3,   // the usual one: a small kernel at each pixel
    FORM_LARGE, // a larger kernel at each pixel (5x5): such a method saves more
    FORM_PLAIN, // with a stride, or of 1x1: a product of matrices is all that helps
    FORM_THIN,  // little arithmetic for each pixel that is written: the first layer's few channels
    NUM_FORMS
} ConvolutionForm;
typedef enum { PASS_FORWARD, PASS_INPUT, PASS_PARAMS, NUM_PASSES } ConvolutionPass;

// What is counted:
//
//   - The FLOP are those of the definition in kernels.h: an addition, a multiplication, a division,
//     a comparison, an exp, log or sqrt counts as one. So a multiplication with an addition is two;
//     others call these two one "MAC", and some of them write FLOPs for it. What holds for a whole
//     row, channel or minibatch (lr / batch_size, sqrt(var + eps)) is computed once for it. A
//     faster algorithm (Winograd) does the same work in fewer.
//   - As the field does, a sum of n terms counts n additions (n - 1 and the 0 that it begins with),
//     and a convolution counts the products with its padding: 2 N M C kernel_h kernel_w out_h
//     out_w, forward and in both backward passes, like 2 M N K of a product of matrices.
//   - The bytes are those read and written if each number that is needed is read once from memory,
//     and each result written once. Pixels that no window of a convolution meets are not needed.
//   - beta 1 is an addition for each result, and reads it.
//   - Sizes of zero cost nothing, but for results that are written all the same: a sum of nothing.
typedef struct KernelCost {
    CostKind kind;
    double flop, bytes;
    ConvolutionForm form; // of a COST_CONVOLUTION
    ConvolutionPass pass; // of a COST_CONVOLUTION: conv2d_forward, _backward_input or _params
} KernelCost;

// Of this kernel with these arguments (of the type struct NAME_args). Pointers are not followed;
// all that counts is which of those that may be NULL are.
KernelCost kernel_cost(KernelId kernel, const void *args);

// Whose software runs the kernel. kernels/cpu and libraries both take one launch; how fast their
// convolutions are is in the machine's file.
typedef enum {
    BY_ONE_LAUNCH, // kernels/cpu, or a library, whose convolution keeps its windows on the chip
    BY_OUR_CUDA,   // kernels/cuda: writes a matrix of all windows and reads it again
} Software;

// `count` products of matrices, one after the other: the size of the result, and the length of its
// sums. count 0: no waves. (What a machine's file says of a library's convolutions was measured on
// whole networks, so the waves are in it.)
typedef struct Products {
    int count;
    double rows, columns, length;
} Products;

typedef struct KernelTraffic {
    int launches;
    double moved;      // bytes that launches move beside the one that has the arithmetic:
    KernelCost work;   // a convolution is COST_PRODUCT where a product of matrices does it
    Products products; // of `work`
} KernelTraffic;

// Not for sizes of zero. Partial sums, which a second launch adds up, are left out: few bytes.
KernelTraffic kernel_traffic(Software software, KernelId kernel, const void *args);

#endif
