// cost.h: what a kernel costs, in numbers, from its argument struct alone. For the work that no
// implementation can avoid, arithmetic and bytes, call kernel_cost(). For what a certain
// implementation does, how often it launches and what it moves more than once, call
// kernel_traffic(). How long this takes on a given machine is computed in common/model/machine.h.
#pragma once

#include "kernels.h"

// What limits a kernel's speed: matrix products and convolutions reach a good part of a processor's
// peak, all others wait for memory.
typedef enum { COST_ELEMENTS, COST_PRODUCT, COST_CONVOLUTION, NUM_COST_KINDS } CostKind;

// How many FLOP a second a convolution reaches depends mostly on its shape: on whether there is a
// method that gets the same sums with fewer multiplications (Winograd's; FFT for large kernels),
// and on whether there is enough arithmetic for each pixel that is written.
typedef enum {
    FORM_3X3,   // the usual one: a small kernel at each pixel
    FORM_LARGE, // a larger kernel at each pixel (5x5): such a method saves more
    FORM_PLAIN, // with a stride, or 1x1: no such method, only matrix products
    FORM_THIN,  // little arithmetic for each pixel that is written: a first layer with few channels
    NUM_FORMS
} ConvolutionForm;
typedef enum { PASS_FORWARD, PASS_INPUT, PASS_PARAMS, NUM_PASSES } ConvolutionPass;

// What is counted:
//
//   - FLOP are those of the definition in kernels.h. An addition, a multiplication, a division, a
//     comparison, an exp, log or sqrt counts as one. So a multiplication with an addition is two.
//     (Others call these two one "MAC", and some of them write FLOPs when they mean MACs.) What is
//     the same for a whole row, channel or minibatch (lr / batch_size, sqrt(var + eps)) counts
//     once. A faster algorithm such as Winograd's needs fewer operations; we still count those of
//     the definition.
//   - As is usual, a sum of n terms counts n additions (n - 1, and one to the 0 that it begins
//     with), and a convolution counts the products with its padding: 2 N M C kernel_h kernel_w
//     out_h out_w, forward and in both backward passes, like 2 M N K of a product of matrices.
//   - Bytes: each number that is needed is read once from memory, and each result is written once.
//     Pixels that no window of a convolution covers are not needed.
//   - beta 1 counts an addition for each result, and one more read.
//   - Sizes of zero cost nothing, except results that are written all the same: a sum of nothing.
typedef struct KernelCost {
    CostKind kind;
    double flop, bytes;
    ConvolutionForm form; // of a COST_CONVOLUTION
    ConvolutionPass pass; // of a COST_CONVOLUTION: conv2d_forward, _backward_input or _params
} KernelCost;

// The cost of a kernel with these arguments (of the type struct NAME_args). Pointers are not
// followed; for those that may be NULL, only whether they are matters.
KernelCost kernel_cost(KernelId kernel, const void *args);

// Which software runs the kernel. kernels/cpu and libraries both take one launch; the speed of
// their convolutions is stated in the machine's file.
typedef enum {
    BY_ONE_LAUNCH, // kernels/cpu, or a library whose convolution keeps its windows on the chip
    BY_OUR_CUDA,   // kernels/cuda: writes a matrix of all windows and reads it again
} Software;

// `count` products of matrices, one after the other: the size of the result, and the length of its
// sums. From these, machine.c computes the waves of tiles on a GPU; with count 0 there are none.
// (The speeds of a library's convolutions in a machine's file were measured on whole networks, so
// they include the waves.)
typedef struct Products {
    int count;
    double rows, columns, length;
} Products;

typedef struct KernelTraffic {
    int launches;
    double moved;      // bytes moved by the launches other than the one that does `work`
    KernelCost work;   // the arithmetic; COST_PRODUCT if a convolution is done by matrix products
    Products products; // of `work`
} KernelTraffic;

// Not for sizes of zero. The bytes of partial sums, which a second launch adds up, are few and are
// left out.
KernelTraffic kernel_traffic(Software software, KernelId kernel, const void *args);
