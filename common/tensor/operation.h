// operation.h: what functional.c and transformer.c share. To use the operations, include
// functional.h or transformer.h.
#pragma once

#include "functional.h"

// A tensor for the result of an operation. If tape_push() records it, it gets a gradient.
#define OUTPUT(device, ...)                                                                        \
    arena_tensor((device), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                      \
                 (const int[]){__VA_ARGS__}, false)

// These two end the program. b may be NULL.
void check_same_device(const char *operation, const Tensor *a, const Tensor *b);
_Noreturn void wrong_shape(const char *operation, const char *expected, const Tensor *a,
                           const Tensor *b);

// C = A B or, if B is stored transposed, A B^T. `groups` is that of gemm_args for C, and
// backward_groups for A's gradient. `lent`: C is in memory of arena_lend(). `name` is that of the
// operation, for messages.
typedef struct ProductOptions {
    bool transposed, lent;
    int groups, backward_groups;
} ProductOptions;
Tensor *matrix_product(const char *name, Tensor *A, Tensor *B, ProductOptions options);

// `groups` for the kernel that sums the gradient of a parameter over so many rows: p->grad_groups,
// a power of two, or its largest half, quarter, .. that divides the rows. Devices that share the
// rows of a minibatch, and share the groups in the same way, then add up parts of the same tree.
int row_groups(const Tensor *p, int rows);

// X + b, where row i of X (n,m) gets b (m), or row i % rows of b (rows,m). Shapes are checked
// before.
Tensor *add_rows(Tensor *X, Tensor *b);
