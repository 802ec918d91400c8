// functional.h: the differentiable operations, with the names of PyTorch's torch.nn.functional.
//
// Each returns a new tensor in the arena of its device (arena.h) and enqueues the work; none waits.
// To get gradients, call backward() of autograd.h afterwards. Do not mix devices: if the inputs of
// an operation are not on one device, or their shapes do not fit, the program ends with a message.
#pragma once

#include "autograd.h"

// Y = X * W + b. X (N,C,H,W), W (M,C,h,w), b (M) or NULL -> (N,M,out_h,out_w), where
// out_h = (H + 2 padding - h) / stride + 1. Options by name: conv2d(X, W, b, .padding = 1).
#define conv2d(X, W, b, ...) conv2d_with((X), (W), (b), (Conv2dOptions){.unused = 0, __VA_ARGS__})
typedef struct Conv2dOptions {
    int unused;
    int stride;        // in both directions; default 1
    int padding;       // on all four sides, zeros; default 0
    int stride_hw[2];  // instead of stride: down, across
    int padding_hw[2]; // instead of padding: top and bottom, left and right
} Conv2dOptions;
Tensor *conv2d_with(Tensor *X, Tensor *W, Tensor *b, Conv2dOptions options);

// avg_pool2d(relu(conv2d(X, W, b)), .kernel = 2) in one operation, which writes no intermediate
// results to memory, and does not compute pixels outside all windows. The same numbers, apart from
// rounding. Options as for conv2d.
#define conv2d_relu_avg_pool2d(X, W, b, ...)                                                       \
    conv2d_relu_avg_pool2d_with((X), (W), (b), (Conv2dOptions){.unused = 0, __VA_ARGS__})
Tensor *conv2d_relu_avg_pool2d_with(Tensor *X, Tensor *W, Tensor *b, Conv2dOptions options);

// The mean of each window. X (N,C,H,W) -> (N,C,out_h,out_w), out_h = (H - kernel) / stride + 1.
// avg_pool2d(X, .kernel = 2, .stride = 2).
#define avg_pool2d(X, ...) avg_pool2d_with((X), (AvgPool2dOptions){.unused = 0, __VA_ARGS__})
typedef struct AvgPool2dOptions {
    int unused;
    int kernel;       // side of the square window
    int stride;       // default: the side of the window
    int kernel_hw[2]; // instead of kernel
    int stride_hw[2]; // instead of stride
} AvgPool2dOptions;
Tensor *avg_pool2d_with(Tensor *X, AvgPool2dOptions options);

// max(X, 0), elementwise
Tensor *relu(Tensor *X);

// A + B, elementwise, for two tensors of the same shape. torch.add
Tensor *add(Tensor *A, Tensor *B);

// The same in place, as PyTorch's relu_ and add_: they save memory by writing the result into X, or
// A, and return it. die()s if the old values are needed for some gradient.
Tensor *relu_(Tensor *X);
Tensor *add_(Tensor *A, Tensor *B);

// The matrix product A B. A (n,k), B (k,m) -> (n,m). torch.mm
Tensor *mm(Tensor *A, Tensor *B);

// X + b for each row. X (n,m), b (m) -> (n,m)
Tensor *add_bias(Tensor *X, Tensor *b);

// X W^T + b. X (n,in), W (out,in), b (out) or NULL -> (n,out). Note the order of W, which is as in
// PyTorch's F.linear. The book's LeNet keeps W as (in,out) and writes mm(X, W) + b.
Tensor *linear(Tensor *X, Tensor *W, Tensor *b);

// The same elements, in the same memory, with another shape. One size may be -1 and is computed.
// reshape(h2, h2->shape[0], -1)
#define reshape(X, ...)                                                                            \
    reshape_to((X), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__})
Tensor *reshape_to(Tensor *X, int ndim, const int *shape);

// The loss of each row, F.cross_entropy(y_hat, y, reduction='none'): -log softmax(y_hat)[y].
// y_hat (n,classes), y (n) with class numbers -> (n)
Tensor *cross_entropy(Tensor *y_hat, Tensor *y);

// The sum of all elements -> (1)
Tensor *sum(Tensor *X);

// ---- not differentiable ----------------------------------------------------------------------

// d2l's sgd: for each, param -= lr * param.grad / batch_size, then sets the gradient to zero.
void sgd(Tensor *const params[], int num_params, float lr, int batch_size);

// count (1) += the number of rows of y_hat (n,classes) whose largest value is at y (n)
void count_correct(Tensor *count, const Tensor *y_hat, const Tensor *y);
