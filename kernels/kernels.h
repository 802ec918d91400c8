// kernels.h: every kernel of the book, once, for both backends. To run a kernel, fill in its
// argument struct and call queue_launch() (common/device/queue.h); do not call kernels directly. To
// add one, follow the steps at the top of tests/test_kernels.c.
//
// A kernel is a function of a small argument struct. The struct `NAME_args` below says what a
// kernel takes; kernels/cpu/*.c and kernels/cuda/*.cu implement it, in files of the same name.
// Kernels work on raw pointers to memory of the device they run on. They know no tensors.
//
//   - All matrices and images are row-major float32; images are (N,C,H,W): N images of C channels
//     of H rows of W pixels.
//   - `beta` says what happens to what an output already holds: 0 overwrites it (and never reads
//     it: it may be NaN), 1 adds to it. With 1, a tensor that is used twice gets the sum of both
//     gradients.
//   - Every kernel accepts sizes of zero, because a device may get no rows of a small minibatch.
//   - The same input gives the same bits, run after run and for any number of threads. Another
//     machine may give other bits. The order in which numbers are added depends on the shapes, and
//     on a CPU also on the width of its vectors; with FMA, a product is not rounded before it is
//     added. (BOOK_ISA in the environment chooses the instructions, see cpu/cpu.h.) On GPUs, matrix
//     products are cuBLAS's, whose order also depends on the GPU and on cuBLAS's version. Many
//     convolutions run on tensor cores instead, with three TF32 products for one of float32
//     (cuda/conv2d_patch.h).
#pragma once

#include <stddef.h>

// The one list of kernels: the enum here and each backend's table come from it.
#define KERNELS(KERNEL)                                                                            \
    KERNEL(fill)                                                                                   \
    KERNEL(scale)                                                                                  \
    KERNEL(add)                                                                                    \
    KERNEL(add_forward)                                                                            \
    KERNEL(add_backward)                                                                           \
    KERNEL(copy_columns)                                                                           \
    KERNEL(sum_forward)                                                                            \
    KERNEL(sum_backward)                                                                           \
    KERNEL(relu_forward)                                                                           \
    KERNEL(relu_backward)                                                                          \
    KERNEL(gemm)                                                                                   \
    KERNEL(add_bias_forward)                                                                       \
    KERNEL(add_bias_backward)                                                                      \
    KERNEL(conv2d_forward)                                                                         \
    KERNEL(conv2d_backward_input)                                                                  \
    KERNEL(conv2d_backward_params)                                                                 \
    KERNEL(avg_pool2d_forward)                                                                     \
    KERNEL(avg_pool2d_backward)                                                                    \
    KERNEL(batch_norm_stats)                                                                       \
    KERNEL(batch_norm_merge)                                                                       \
    KERNEL(batch_norm_forward)                                                                     \
    KERNEL(batch_norm_backward_sums)                                                               \
    KERNEL(batch_norm_backward_input)                                                              \
    KERNEL(layer_norm_forward)                                                                     \
    KERNEL(layer_norm_backward_input)                                                              \
    KERNEL(layer_norm_backward_params)                                                             \
    KERNEL(gelu_forward)                                                                           \
    KERNEL(gelu_backward)                                                                          \
    KERNEL(patches)                                                                                \
    KERNEL(attention_forward)                                                                      \
    KERNEL(attention_backward)                                                                     \
    KERNEL(cross_entropy_forward)                                                                  \
    KERNEL(cross_entropy_backward)                                                                 \
    KERNEL(count_correct)                                                                          \
    KERNEL(sgd)                                                                                    \
    KERNEL(adam)

#define KERNEL_ENUM(name) KERNEL_##name,
typedef enum { KERNELS(KERNEL_ENUM) NUM_KERNELS } KernelId;
#undef KERNEL_ENUM
// "conv2d_forward"
const char *kernel_name(KernelId kernel);

// ---- elementwise and sums --------------------------------------------------------------------

// x[i] = value
struct fill_args {
    float *x, value;
    size_t n;
};

// x[i] *= factor
struct scale_args {
    float *x, factor;
    size_t n;
};

// y[i] += x[i]
struct add_args {
    float *y;
    const float *x;
    size_t n;
};

// Y = A + B. Y may be A or B.
struct add_forward_args {
    const float *A, *B;
    float *Y;
    size_t n;
};

// dX = beta dX + dY: the gradient of each term of a sum; also adds any gradient to what is there
// already.
struct add_backward_args {
    const float *dY;
    float *dX, beta;
    size_t n;
};

// Y[i][j] = X[i][j] for rows x cols numbers. Rows of X begin X_stride floats apart, rows of Y
// Y_stride floats. So X or Y may be some neighbouring columns of a wider matrix. With an image as a
// row, this cuts channels out of images and puts them back together.
struct copy_columns_args {
    const float *X;
    float *Y;
    int rows, cols, X_stride, Y_stride;
};

// out[0] = sum of x[0..n)
struct sum_forward_args {
    const float *x;
    float *out;
    size_t n;
};

// dx[i] = beta dx[i] + dout[0]
struct sum_backward_args {
    const float *dout;
    float *dx, beta;
    size_t n;
};

// Y = max(X, 0); a NaN stays NaN, so that it is seen in the loss. Y may be X.
struct relu_forward_args {
    const float *X;
    float *Y;
    size_t n;
};

// dX = beta dX + (Y > 0 ? dY : 0). The slope at 0 is 0, as in PyTorch. dX may be dY.
struct relu_backward_args {
    const float *Y, *dY;
    float *dX, beta;
    size_t n;
};

// ---- fully connected layers ------------------------------------------------------------------

// C (M,N) = beta C + op(A) op(B); op(A) is (M,K), op(B) is (K,N). With trans_A, A is stored as
// (K,M); with trans_B, B is stored as (N,K).
//
// `groups` says in which order a CPU adds: each sum of K products is cut into so many equal parts,
// which are added halves to halves, ((0+1)+(2+3)) + ((4+5)+(6+7)). So devices that have some of the
// parts each, and add their results in the same way, get the bits that one device gets. `groups` is
// a power of two that divides K, at most 32. 0: in whatever order is fastest. (A GPU may add in any
// order.)
struct gemm_args {
    const float *A, *B;
    float *C, beta;
    int M, N, K, trans_A, trans_B, groups;
};

// Y (rows,cols) = X + b, where b has `parts` rows (0: one): row i gets row i % parts of b. With one
// row, b is a bias; for sequences of `parts` tokens, it is a position embedding.
struct add_bias_forward_args {
    const float *X, *b;
    float *Y;
    int rows, cols, parts;
};

// db (parts,cols) = beta db + the sum of the rows of dY (rows,cols) that got each row of b.
// `groups` divides rows / parts; see gemm_args.
struct add_bias_backward_args {
    const float *dY;
    float *db, beta;
    int rows, cols, parts, groups;
};

// ---- convolution and pooling -----------------------------------------------------------------

// The shape of a 2-d convolution: X (N,C,H,W), W (M,C,kernel_h,kernel_w), b (M), Y
// (N,M,out_h,out_w) with out = (H + 2 pad - kernel) / stride + 1, rounded down. As in all of deep
// learning this is cross-correlation: the kernel is not flipped.
struct conv2d_shape {
    int N, C, H, W, M, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, out_h, out_w;
};

// A convolution may end in ReLU and average pooling with 2x2 windows side by side, as in LeNet. The
// values between these steps are then never written to memory. In this case `pooled` is not NULL,
// out_h and out_w are even, and Y and dY have the shape (N,M,out_h/2,out_w/2). `pooled`
// (N,M,out_h/2,out_w) says which pixels are positive, which is all that backward needs to know:
// byte (i,j) has bit 0 for the pixel (2i,j) and bit 1 for (2i+1,j).

// Y = X * W + b; b may be NULL. Writes `pooled`.
struct conv2d_forward_args {
    const float *X, *W, *b;
    float *Y;
    struct conv2d_shape s;
    unsigned char *pooled; // or NULL
};

// dX = beta dX + the gradient that reaches the input
struct conv2d_backward_input_args {
    const float *dY, *W;
    float *dX, beta;
    struct conv2d_shape s;
    const unsigned char *pooled; // or NULL
};

// dW = beta dW + ..., db = beta db + ..., summed over the N images; db may be NULL
struct conv2d_backward_params_args {
    const float *dY, *X;
    float *dW, *db, beta;
    struct conv2d_shape s;
    const unsigned char *pooled; // or NULL
};

// The mean of each kernel_h x kernel_w window; X (N,C,H,W), Y (N,C,out_h,out_w) with
// out = (H - kernel) / stride + 1, rounded down. Pixels at the edge that fill no window are left
// out.
struct avg_pool2d_shape {
    int N, C, H, W, kernel_h, kernel_w, stride_h, stride_w, out_h, out_w;
};

struct avg_pool2d_forward_args {
    const float *X;
    float *Y;
    struct avg_pool2d_shape s;
};

struct avg_pool2d_backward_args {
    const float *dY;
    float *dX, beta;
    struct avg_pool2d_shape s;
};

// ---- batch normalisation -----------------------------------------------------------------------
//
// Ioffe & Szegedy, "Batch normalization", 2015. X (N,C,S) has S = H W pixels per channel. Each
// channel gets mean 0 and variance 1 over all images and pixels of the minibatch, then a weight and
// a bias that are learnt. This is the only layer where the rows of a minibatch depend on each
// other. Therefore it has several steps, with small results (a few numbers per channel) that
// devices can exchange in between:
//
//     forward    stats -> [all devices' to each] -> merge -> forward
//     backward   backward_sums -> [allreduce] -> backward_input
//
// A device that normalises with its own rows alone leaves out the steps in brackets.

// stats (2C+1): the mean of each channel, then the sum of the squared deviations from it ("M2") of
// each channel, then the count N S. If the count is 0, so are all others.
struct batch_norm_stats_args {
    const float *X;
    float *stats;
    int N, C, S;
};

// stats (k,2C+1) of k devices, merged in the order 0, 1, ..., k-1 (Chan, Golub & LeVeque,
// "Algorithms for computing the sample variance", 1983) -> mean (C), var (C) = M2 / count and count
// (1) of all their rows. If there are no rows, all are 0, never NaN.
// Then running = (1 - momentum) running + momentum * the minibatch's, for running_mean (C) and
// running_var (C), unless these are NULL. As in PyTorch, running_var takes the unbiased variance,
// M2 / (count - 1). It does not change if the count is below 2, running_mean not if the count is 0.
struct batch_norm_merge_args {
    const float *stats;
    float *mean, *var, *count, *running_mean, *running_var, momentum;
    int k, C;
};

// Y = weight xhat + bias with xhat = (X - mean) / sqrt(var + eps). In training, mean and var are
// the minibatch's; in evaluation, the running ones.
struct batch_norm_forward_args {
    const float *X, *mean, *var, *weight, *bias;
    float *Y, eps;
    int N, C, S;
};

// sums (2,C) = the sum over images and pixels of dY, and of dY xhat. Over all devices these are the
// gradients of bias and weight.
struct batch_norm_backward_sums_args {
    const float *dY, *X, *mean, *var;
    float *sums, eps;
    int N, C, S;
};

// dX = beta dX + weight / sqrt(var + eps) (dY - sums[0] / count - xhat sums[1] / count), where sums
// and count are those of all devices. The two terms with sums are there because mean and var depend
// on X too. In evaluation they are constants: then sums is NULL, dX = beta dX + weight / sqrt(var +
// eps) dY, and X, mean and count are not read.
struct batch_norm_backward_input_args {
    const float *dY, *X, *mean, *var, *weight, *sums, *count;
    float *dX, eps, beta;
    int N, C, S;
};

// ---- transformers ------------------------------------------------------------------------------
//
// Vaswani et al., "Attention is all you need", 2017; Dosovitskiy et al., "An image is worth 16x16
// words", ICLR 2021. N sequences of T tokens are a matrix with N T rows, the tokens of the first
// sequence first.

// Ba, Kiros & Hinton, "Layer normalization", 2016. Each row of X (rows,cols) gets mean 0 and
// variance 1, then a weight and a bias (cols) that are learnt: Y = weight xhat + bias with xhat =
// (X - mean) / sqrt(var + eps). stats (rows,2): the mean of each row, and 1 / sqrt(var + eps).
struct layer_norm_forward_args {
    const float *X, *weight, *bias;
    float *Y, *stats, eps;
    int rows, cols;
};

// With g = weight dY: dX = beta dX + (g - mean of g - xhat (mean of g xhat)) / sqrt(var + eps)
struct layer_norm_backward_input_args {
    const float *dY, *X, *stats, *weight;
    float *dX, beta;
    int rows, cols;
};

// dweight (cols) = beta dweight + the sum over rows of dY xhat, dbias = beta dbias + that of dY.
// `groups` divides rows; see gemm_args.
struct layer_norm_backward_params_args {
    const float *dY, *X, *stats;
    float *dweight, *dbias, beta;
    int rows, cols, groups;
};

// Hendrycks & Gimpel, "Gaussian error linear units", 2016. Y = X P(X), where P(x) = (1 + erf(x /
// sqrt(2))) / 2 is the probability that a normally distributed number is below x. A NaN stays NaN.
struct gelu_forward_args {
    const float *X;
    float *Y;
    size_t n;
};

// dX = beta dX + dY (P(X) + X p(X)), where p(x) = exp(-x^2 / 2) / sqrt(2 pi) is P's derivative.
// dX may be dY.
struct gelu_backward_args {
    const float *X, *dY;
    float *dX, beta;
    size_t n;
};

// Cuts images into tokens: X (N,C,H,W) -> Y (N T, C side side), the T = (H / side) (W / side)
// squares of each image from left to right and from top to bottom, a row of Y for each. side
// divides H and W.
struct patches_args {
    const float *X;
    float *Y;
    int N, C, H, W, side;
};

// QKV is (N T, heads 3 width): for each token and head the query q, the key k and the value v,
// `width` numbers each, side by side. For each sequence and head,
//
//     probs[i][j] = softmax over j of (q[i] . k[j] / sqrt(width))
//     Y[i] = sum over j of probs[i][j] v[j]
//
// with probs (N,heads,T,T), which backward needs, and Y (N T, heads width). Each head is computed
// alone, in an order that does not depend on the number of heads.
struct attention_shape {
    int N, T, heads, width;
};

struct attention_forward_args {
    const float *QKV;
    float *Y, *probs;
    struct attention_shape s;
};

// dQKV = beta dQKV + the gradient that reaches the queries, keys and values
struct attention_backward_args {
    const float *dY, *QKV, *probs;
    float *dQKV, beta;
    struct attention_shape s;
};

// ---- loss, accuracy, update ------------------------------------------------------------------

// For each row i: losses[i] = -log softmax(logits[i])[labels[i]], probs[i] = softmax(logits[i]).
// logits and probs are (rows,classes); labels holds class numbers as floats. The loss of a row is
// NaN if its label is no class.
struct cross_entropy_forward_args {
    const float *logits, *labels;
    float *losses, *probs;
    int rows, classes;
};

// dlogits = beta dlogits + dlosses[i] (probs[i] - onehot(labels[i]))
struct cross_entropy_backward_args {
    const float *probs, *labels, *dlosses;
    float *dlogits, beta;
    int rows, classes;
};

// count[0] += the number of rows whose largest logit is at labels[i]. Of equal logits the first
// counts as the largest, as in argmax. A row with a NaN, or with a label that is no class, is never
// correct.
struct count_correct_args {
    const float *logits, *labels;
    float *count;
    int rows, classes;
};

// param -= lr / batch_size * grad, then grad = 0 (d2l's `sgd`)
struct sgd_args {
    float *param, *grad, lr;
    int batch_size;
    size_t n;
};

// One step of Adam (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015), with
// g = grad / batch_size. `mean` and `square` are moving averages that begin at 0; `rate` and `root`
// correct for that:
//
//     mean   = beta1 mean   + (1 - beta1) g             rate = lr / (1 - beta1^t)
//     square = beta2 square + (1 - beta2) g^2           root = sqrt(1 - beta2^t)
//     param -= rate * mean / (sqrt(square) / root + eps), then grad = 0
struct adam_args {
    float *param, *grad, *mean, *square;
    float rate, root, beta1, beta2, eps;
    int batch_size;
    size_t n;
};

// A queue's task has room for this many bytes: the largest struct above must fit.
enum { MAX_KERNEL_ARGS = 128 };
