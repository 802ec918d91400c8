// product.h: the product of two matrices that are in the cache, on one thread. The arithmetic of
// fully connected layers and of convolutions ends here, but for LeNet's first layer (pooled_3x3.c);
// what calls it (gemm.c, conv2d.c, winograd.c) is about bringing the numbers here in an order in
// which they can be read fast.
#ifndef KERNELS_CPU_PRODUCT_H
#define KERNELS_CPU_PRODUCT_H

#include "kernels/cpu/cpu.h"
#include "vector.h"

// C (rows,cols) = A (rows,depth) B (depth,cols), or C += A B with `add`. Columns are taken VL at a
// time, as vectors: there are `vectors` of them.
//
//   - A(i,k) is A[i a_row + k a_col]; a_row or a_col is 1. With a_block, rows are in blocks of VL
//     instead: A(i,k) is A[i / VL a_block + i % VL + k a_col].
//   - Vector j of row k of B is B[j b_block + k VL]; what it has beyond the last column is read,
//   and
//     may be anything.
//   - Vector j of row i of C is C[i c_row + j c_block]. Of the last vector only `last` numbers are
//     written, if `last` is not 0.
//
// Each number of C is the same sum over k in the same order; so it does not depend on how a product
// is cut into rows and columns. With a `tree` of several groups, it is the sum of that tree (see
// cpu.h); for A by columns, and at most MOST_GROUPS groups.
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
// A long sum is made of shorter ones, of that many products.
enum { DEPTH = 256 };

#endif
