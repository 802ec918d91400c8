// product.h: the product of two matrices that are in the cache, on one thread. For any other
// matrices call the kernel `gemm`, which brings them into the cache. All arithmetic of fully
// connected layers, of attention and of convolutions is done here, except that of LeNet's first
// layer (pooled_3x3.c). The callers (gemm.c, attention.c, windows.c, winograd.c) bring the numbers
// into an order in which they can be read fast.
#pragma once

#include "kernels/cpu/cpu.h"
#include "vector.h"

// C (rows,cols) = A (rows,depth) B (depth,cols), or C += A B with `add`. VL columns at a time are a
// vector, and there are `vectors` of them.
//
//   - A(i,k) is A[i a_row + k a_col]; a_row or a_col is 1. With a_block, rows are in blocks of VL
//     instead: A(i,k) is A[i / VL a_block + i % VL + k a_col].
//   - Vector j of row k of B is B[j b_block + k VL]. Its numbers beyond the last column are read,
//     but may be anything.
//   - Vector j of row i of C is C[i c_row + j c_block]. Of the last vector only `last` numbers are
//     written, if `last` is not 0.
//
// Each number of C is a sum over k in a fixed order, so it does not depend on how a product is cut
// into rows and columns. With a `tree` (groups > 0), the sum is added up as that tree (cpu.h);
// there may be at most MOST_GROUPS of them.
typedef struct Product {
    const float *A;
    size_t a_row, a_col, a_block;
    const float *B;
    size_t b_block;
    float *C;
    size_t c_row, c_block;
    int rows, vectors, depth, last;
    bool add;
    SumTree tree;
} Product;

void product(const Product *p);
// A longer sum is made of sums of this many products.
enum { DEPTH = 256 };
