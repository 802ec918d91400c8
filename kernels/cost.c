// cost.c: counts what each kernel costs, with a function for each kernel; and what our CUDA code
// moves beyond that.
//
// ## How fast can a kernel be?
//
// A processor does two things: it calculates, and it fetches numbers from memory. It has a rate for
// each, `peak` FLOP per second and `bandwidth` bytes per second, and does both at the same time. So
// every kernel, however clever, takes at least
//
//     seconds = max(flop / peak, bytes / bandwidth)
//
// Which of the two it is depends on one number, flop / bytes: how often the kernel uses a byte that
// it has fetched. This is its *arithmetic intensity* (also "operational intensity", if the bytes
// are those of main memory, as here). The attainable FLOP per second are min(peak, bandwidth x
// intensity). Drawn over the intensity, they look like a roof:
//
//     FLOP/s
//      peak |            _______________________    a product of large matrices
//           |          /
//           |        /   bandwidth x intensity
//           |      /
//           |    /      relu, sgd, batch normalisation
//           |  /
//           +------------|-----------------------
//                 peak / bandwidth          FLOP per byte
//
// Under the slope, a faster processor does not help; under the flat part, faster memory does not.
// `add` does n FLOP for 12 n bytes: 1/12 FLOP per byte, however large n is. A product of two n x n
// matrices does 2 n^3 FLOP for 12 n^2 bytes: n / 6, which grows with n. This is why a minibatch has
// many rows, and why ReLU and pooling are better done inside the convolution before them (`pooled`
// in kernels.h: hardly fewer FLOP, but far fewer bytes). It is also why a device that gets a k-th
// part of the rows may not be k times as fast: W is as large as before.
//
// The roof is from Williams, Waterman & Patterson, "Roofline: an insightful visual performance
// model for multicore architectures", Communications of the ACM 52(4), 2009. The efficiencies in
// machine.h account for bytes that are fetched again because a cache was too small, and for FLOP
// below the peak.
#include "cost.h"
#include "cuda/conv2d_plan.h"

#include <stdbool.h>

static int smaller(int a, int b) { return a < b ? a : b; }
static int larger(int a, int b) { return a > b ? a : b; }

// n if it is needed, else 0.
static double when(bool needed, double n) { return needed ? n : 0; }

// How many of n results are read and added to.
static double kept(float beta, double n) { return when(beta != 0, n); }

static KernelCost cost(CostKind kind, double flop, double floats) {
    return (KernelCost){.kind = kind, .flop = flop, .bytes = floats * sizeof(float)};
}

// ---- elementwise and sums ----------------------------------------------------------------------

static KernelCost fill_cost(const void *args) {
    const struct fill_args *a = args;
    return cost(COST_ELEMENTS, 0, (double)a->n);
}

static KernelCost scale_cost(const void *args) {
    const struct scale_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n, 2 * n);
}

static KernelCost add_cost(const void *args) {
    const struct add_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n, 3 * n);
}

static KernelCost add_forward_cost(const void *args) {
    const struct add_forward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n, 3 * n);
}

static KernelCost add_backward_cost(const void *args) {
    const struct add_backward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, kept(a->beta, n), 2 * n + kept(a->beta, n));
}

static KernelCost copy_columns_cost(const void *args) {
    const struct copy_columns_args *a = args;
    return cost(COST_ELEMENTS, 0, 2 * (double)a->rows * a->cols);
}

static KernelCost sum_forward_cost(const void *args) {
    const struct sum_forward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n, n + 1);
}

static KernelCost sum_backward_cost(const void *args) {
    const struct sum_backward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, kept(a->beta, n), when(n > 0, 1) + n + kept(a->beta, n));
}

static KernelCost relu_forward_cost(const void *args) {
    const struct relu_forward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n, 2 * n);
}

static KernelCost relu_backward_cost(const void *args) {
    const struct relu_backward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, n + kept(a->beta, n), 3 * n + kept(a->beta, n));
}

// ---- fully connected layers --------------------------------------------------------------------

// A matrix is not read if the other one is empty.
static KernelCost gemm_cost(const void *args) {
    const struct gemm_args *a = args;
    double M = a->M, N = a->N, K = a->K;
    double floats = when(N > 0, M * K) + when(M > 0, K * N) + M * N + kept(a->beta, M * N);
    return cost(COST_PRODUCT, 2 * M * N * K + kept(a->beta, M * N), floats);
}

// Fewer rows than parts do not need all of b.
static KernelCost add_bias_forward_cost(const void *args) {
    const struct add_bias_forward_args *a = args;
    double n = (double)a->rows * a->cols, b = (double)larger(a->parts, 1) * a->cols;
    return cost(COST_ELEMENTS, n, 2 * n + (b < n ? b : n));
}

static KernelCost add_bias_backward_cost(const void *args) {
    const struct add_bias_backward_args *a = args;
    double n = (double)a->rows * a->cols, b = (double)larger(a->parts, 1) * a->cols;
    return cost(COST_ELEMENTS, n + kept(a->beta, b), n + b + kept(a->beta, b));
}

// ---- convolution and pooling -------------------------------------------------------------------

// How many of the `size` rows (or columns) of an image are in some window. Windows may overlap, and
// with a stride larger than the kernel there are pixels in no window.
static double met(int size, int out, int kernel, int stride, int pad) {
    int count = 0, next = 0; // those before `next` are counted
    for (int i = 0; i < out; i++) {
        int first = larger(i * stride - pad, next), last = smaller(i * stride - pad + kernel, size);
        count += larger(last - first, 0);
        next = larger(next, last);
    }
    return count;
}

typedef struct conv2d_shape Conv;

static ConvolutionForm form_of(const Conv *s) {
    enum { THIN = 64 }; // products for an output pixel: those of 16 channels with kernels of 2x2
    if (s->C * s->kernel_h * s->kernel_w < THIN) return FORM_THIN;
    if (s->stride_h > 1 || s->stride_w > 1 || s->kernel_h * s->kernel_w == 1) return FORM_PLAIN;
    return s->kernel_h * s->kernel_w > 9 ? FORM_LARGE : FORM_3X3;
}

static KernelCost conv2d_cost(const Conv *s, ConvolutionPass pass, double flop, double floats) {
    KernelCost c = cost(COST_CONVOLUTION, flop, floats);
    c.form = form_of(s);
    c.pass = pass;
    return c;
}

static double size_X(const Conv *s) { return (double)s->N * s->C * s->H * s->W; }
static double size_W(const Conv *s) { return (double)s->M * s->C * s->kernel_h * s->kernel_w; }
static double size_Y(const Conv *s) { return (double)s->N * s->M * s->out_h * s->out_w; }

// A multiplication and an addition for each weight and each pixel of Y that it goes to. Forward and
// both backward passes have the same products: they are sums of them, seen from Y, X and W.
static double conv2d_flop(const Conv *s) {
    return 2 * size_Y(s) * s->C * s->kernel_h * s->kernel_w;
}

// Floats of X that forward reads.
static double met_X(const Conv *s) {
    double rows = met(s->H, s->out_h, s->kernel_h, s->stride_h, s->pad_h);
    double columns = met(s->W, s->out_w, s->kernel_w, s->stride_w, s->pad_w);
    return when(s->M > 0, (double)s->N * s->C * rows * columns);
}

// Y, or dY. If it is pooled, there is a number for each window of four pixels, and a byte of
// `pooled` for every two pixels.
static double bytes_Y(const Conv *s, const unsigned char *pooled) {
    double pixels = size_Y(s);
    return pooled ? pixels / 4 * sizeof(float) + pixels / 2 : pixels * sizeof(float);
}

// If pooled, each pixel is compared with 0 and added to its window's sum, which is then divided.
static KernelCost conv2d_forward_cost(const void *args) {
    const struct conv2d_forward_args *a = args;
    const Conv *s = &a->s;
    double pixels = size_Y(s), biases = when(a->b && pixels > 0, s->M);
    double flop = conv2d_flop(s) + when(a->b, pixels) + when(a->pooled, 2 * pixels + pixels / 4);
    double floats = met_X(s) + when(pixels > 0, size_W(s)) + biases;
    KernelCost c = conv2d_cost(s, PASS_FORWARD, flop, floats);
    c.bytes += bytes_Y(s, a->pooled);
    return c;
}

// If pooled, dY of a window is divided among its four pixels.
static KernelCost conv2d_backward_input_cost(const void *args) {
    const struct conv2d_backward_input_args *a = args;
    const Conv *s = &a->s;
    double pixels = size_Y(s), n = size_X(s);
    double flop = conv2d_flop(s) + when(a->pooled, pixels / 4) + kept(a->beta, n);
    double floats = when(pixels > 0, size_W(s)) + n + kept(a->beta, n);
    KernelCost c = conv2d_cost(s, PASS_INPUT, flop, floats);
    c.bytes += bytes_Y(s, a->pooled);
    return c;
}

static KernelCost conv2d_backward_params_cost(const void *args) {
    const struct conv2d_backward_params_args *a = args;
    const Conv *s = &a->s;
    double pixels = size_Y(s), n = size_W(s) + when(a->db, s->M);
    double flop = conv2d_flop(s) + when(a->db, pixels) + when(a->pooled, pixels / 4);
    double floats = met_X(s) + n + kept(a->beta, n);
    KernelCost c = conv2d_cost(s, PASS_PARAMS, flop + kept(a->beta, n), floats);
    c.bytes += bytes_Y(s, a->pooled);
    return c;
}

typedef struct avg_pool2d_shape Pool;

static double pool_windows(const Pool *s) { return (double)s->N * s->C * s->out_h * s->out_w; }

// For each window: an addition for each pixel, and a division.
static double pool_flop(const Pool *s) {
    return pool_windows(s) * ((double)s->kernel_h * s->kernel_w + 1);
}

static KernelCost avg_pool2d_forward_cost(const void *args) {
    const struct avg_pool2d_forward_args *a = args;
    const Pool *s = &a->s;
    double rows = met(s->H, s->out_h, s->kernel_h, s->stride_h, 0);
    double columns = met(s->W, s->out_w, s->kernel_w, s->stride_w, 0);
    double pixels = (double)s->N * s->C * rows * columns;
    return cost(COST_ELEMENTS, pool_flop(s), pixels + pool_windows(s));
}

static KernelCost avg_pool2d_backward_cost(const void *args) {
    const struct avg_pool2d_backward_args *a = args;
    const Pool *s = &a->s;
    double n = (double)s->N * s->C * s->H * s->W;
    return cost(COST_ELEMENTS, pool_flop(s) + kept(a->beta, n),
                pool_windows(s) + n + kept(a->beta, n));
}

// ---- batch normalisation -----------------------------------------------------------------------
//
// Each kernel does some FLOP for each number, and a few for each channel that has any numbers.

// The mean: an addition for each number, a division. M2: a difference, its square, an addition.
static KernelCost batch_norm_stats_cost(const void *args) {
    const struct batch_norm_stats_args *a = args;
    double n = (double)a->N * a->C * a->S;
    return cost(COST_ELEMENTS, 4 * n + when(n > 0, a->C), n + 2 * (double)a->C + 1);
}

// Chan's formulas have two FLOP for each device, and eight more for each of its channels; a
// division gives the variance. A running value takes two products and an addition; the variance's
// also a division by count - 1.
static KernelCost batch_norm_merge_cost(const void *args) {
    const struct batch_norm_merge_args *a = args;
    double k = a->k, C = a->C, mean = when(a->running_mean, C), var = when(a->running_var, C);
    double once = when(a->running_mean || a->running_var, 1) + when(a->running_var, 1);
    double flop = 2 * k + 8 * k * C + C + 3 * mean + 4 * var + once;
    return cost(COST_ELEMENTS, flop, k * (2 * C + 1) + 2 * C + 1 + 2 * mean + 2 * var);
}

// For each channel: its deviation, sqrt(var + eps).
static KernelCost batch_norm_forward_cost(const void *args) {
    const struct batch_norm_forward_args *a = args;
    double n = (double)a->N * a->C * a->S, channels = when(n > 0, a->C);
    return cost(COST_ELEMENTS, 4 * n + 2 * channels, 2 * n + 4 * channels);
}

static KernelCost batch_norm_backward_sums_cost(const void *args) {
    const struct batch_norm_backward_sums_args *a = args;
    double n = (double)a->N * a->C * a->S, channels = when(n > 0, a->C);
    return cost(COST_ELEMENTS, 5 * n + 2 * channels, 2 * n + 2 * channels + 2 * (double)a->C);
}

// For each channel: its deviation, weight / deviation, and with sums their two means.
static KernelCost batch_norm_backward_input_cost(const void *args) {
    const struct batch_norm_backward_input_args *a = args;
    double n = (double)a->N * a->C * a->S, channels = when(n > 0, a->C);
    KernelCost c = cost(COST_ELEMENTS, n + 3 * channels, 2 * n + 2 * channels);
    if (a->sums)
        c = cost(COST_ELEMENTS, 6 * n + 5 * channels, 3 * n + 5 * channels + when(n > 0, 1));
    c.flop += kept(a->beta, n);
    c.bytes += kept(a->beta, n) * sizeof(float);
    return c;
}

// ---- transformers ------------------------------------------------------------------------------

// For each number: an addition for the mean; a deviation, its square, an addition; xhat, and two
// FLOP for weight and bias. For each row: two divisions, then 1 / sqrt(var + eps).
static KernelCost layer_norm_forward_cost(const void *args) {
    const struct layer_norm_forward_args *a = args;
    double rows = a->rows, n = rows * a->cols;
    return cost(COST_ELEMENTS, 7 * n + 5 * rows, 2 * n + 2 * rows + when(n > 0, 2 * a->cols));
}

// For each number: two FLOP for xhat; g and two sums, with one product; four for dX. For each row:
// its two means.
static KernelCost layer_norm_backward_input_cost(const void *args) {
    const struct layer_norm_backward_input_args *a = args;
    double rows = a->rows, n = rows * a->cols, keep = kept(a->beta, n);
    return cost(COST_ELEMENTS, 10 * n + 2 * rows + keep,
                3 * n + 2 * rows + when(n > 0, a->cols) + keep);
}

static KernelCost layer_norm_backward_params_cost(const void *args) {
    const struct layer_norm_backward_params_args *a = args;
    double rows = a->rows, n = rows * a->cols, keep = kept(a->beta, 2 * (double)a->cols);
    return cost(COST_ELEMENTS, 5 * n + keep,
                2 * n + when(n > 0, 2 * rows) + 2 * (double)a->cols + keep);
}

// P has a factor, erf, an addition and a half.
static KernelCost gelu_forward_cost(const void *args) {
    const struct gelu_forward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, 5 * n, 2 * n);
}

// P as above; p has a square, a half, exp and a factor; then three that put them together.
static KernelCost gelu_backward_cost(const void *args) {
    const struct gelu_backward_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, 11 * n + kept(a->beta, n), 3 * n + kept(a->beta, n));
}

static KernelCost patches_cost(const void *args) {
    const struct patches_args *a = args;
    return cost(COST_ELEMENTS, 0, 2 * (double)a->N * a->C * a->H * a->W);
}

typedef struct attention_shape Attention;

static double size_tokens(const Attention *s) { return (double)s->N * s->T * s->heads * s->width; }
static double size_probs(const Attention *s) { return (double)s->N * s->heads * s->T * s->T; }

// For each query and key: a product and an addition for each of `width` numbers, for the score and
// again for Y; a division by sqrt(width), which is computed once; five FLOP for softmax. (These
// count as waiting for memory: the matrices of one head are too small for a product's speed.)
static KernelCost attention_forward_cost(const void *args) {
    const struct attention_forward_args *a = args;
    double tokens = size_tokens(&a->s), probs = size_probs(&a->s);
    return cost(COST_ELEMENTS, probs * (4 * a->s.width + 6) + when(probs > 0, 1),
                4 * tokens + probs);
}

// Four products of matrices: for the gradients of probs, queries, keys and values. Each probability
// also has two FLOP for a sum over the row, and three for the gradient of its score.
static KernelCost attention_backward_cost(const void *args) {
    const struct attention_backward_args *a = args;
    double tokens = size_tokens(&a->s), probs = size_probs(&a->s), keep = kept(a->beta, 3 * tokens);
    return cost(COST_ELEMENTS, probs * (8 * a->s.width + 5) + when(probs > 0, 1) + keep,
                7 * tokens + probs + keep);
}

// ---- loss, accuracy, update --------------------------------------------------------------------

// For each logit: a comparison, the subtraction of the largest, exp, an addition, and a division by
// the sum. For each row: a log and a difference.
static KernelCost cross_entropy_forward_cost(const void *args) {
    const struct cross_entropy_forward_args *a = args;
    double rows = a->rows, n = rows * a->classes;
    return cost(COST_ELEMENTS, 5 * n + 2 * rows, 2 * n + 2 * rows);
}

static KernelCost cross_entropy_backward_cost(const void *args) {
    const struct cross_entropy_backward_args *a = args;
    double rows = a->rows, n = rows * a->classes;
    return cost(COST_ELEMENTS, 2 * n + kept(a->beta, n), 2 * n + 2 * rows + kept(a->beta, n));
}

static KernelCost count_correct_cost(const void *args) {
    const struct count_correct_args *a = args;
    double rows = a->rows, n = rows * a->classes;
    return cost(COST_ELEMENTS, n + 1, n + rows + 2);
}

static KernelCost sgd_cost(const void *args) {
    const struct sgd_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, 2 * n + when(n > 0, 1), 4 * n);
}

// The four that are computed once for all elements: 1 / batch_size, 1 - beta1, 1 - beta2, 1 / root.
static KernelCost adam_cost(const void *args) {
    const struct adam_args *a = args;
    double n = (double)a->n;
    return cost(COST_ELEMENTS, 14 * n + when(n > 0, 4), 8 * n);
}

// ---- all of them -------------------------------------------------------------------------------

// If a kernel has no function above, this does not compile.
KernelCost kernel_cost(KernelId kernel, const void *args) {
#define COST_OF(name) name##_cost,
    static KernelCost (*const costs[NUM_KERNELS])(const void *args) = {KERNELS(COST_OF)};
#undef COST_OF
    return costs[kernel](args);
}

// ---- what an implementation does ---------------------------------------------------------------

static const Conv *conv_shape(KernelId kernel, const void *args) {
    switch (kernel) {
    case KERNEL_conv2d_forward:
        return &((const struct conv2d_forward_args *)args)->s;
    case KERNEL_conv2d_backward_input:
        return &((const struct conv2d_backward_input_args *)args)->s;
    case KERNEL_conv2d_backward_params:
        return &((const struct conv2d_backward_params_args *)args)->s;
    default:
        return NULL;
    }
}

// The matrices of a convolution: W (M,taps), the windows (taps,pixels), Y (M,pixels). Each pass
// multiplies two of them, and the third is the result.
static Products conv_products(const Conv *s, ConvolutionPass pass, int count) {
    double taps = (double)s->C * s->kernel_h * s->kernel_w;
    double pixels = (double)s->N * s->out_h * s->out_w / count; // those of a chunk
    switch (pass) {
    case PASS_FORWARD:
        return (Products){count, s->M, pixels, taps};
    case PASS_INPUT:
        return (Products){count, taps, pixels, s->M};
    default:
        return (Products){count, s->M, taps, pixels};
    }
}

// kernels/cuda/conv2d.cu: for each chunk of images, one launch writes the windows or adds them up,
// one moves the planes of Y between images and matrix, and cuBLAS multiplies the two. The gradient
// of few weights has a kernel of its own, and a second one that adds up its sums; so has the
// gradient of the bias.
static void add_our_convolution(KernelTraffic *t, const Conv *s, const void *args) {
    const struct conv2d_backward_params_args *params = args;
    bool of_params = t->work.pass == PASS_PARAMS;
    int images = conv2d_chunk_images(s), chunks = (s->N + images - 1) / images;
    double windows = size_Y(s) / s->M * s->C * s->kernel_h * s->kernel_w, planes = size_Y(s);
    t->launches = chunks * (of_params && conv2d_has_few_weights(s) ? 4 : 3);
    // The bytes that cannot be avoided are moved by these launches, except W: the product reads it.
    t->moved = t->work.bytes - size_W(s) * sizeof(float) + (windows + planes) * sizeof(float);
    if (of_params && params->db) {
        t->launches += 2;
        t->moved += bytes_Y(s, params->pooled);
    }
    t->work.kind = COST_PRODUCT;
    t->work.bytes = (windows + planes + chunks * size_W(s)) * sizeof(float);
    t->products = conv_products(s, t->work.pass, chunks);
}

// These kernels take two launches: one for parts of the sums, and one that adds up the parts.
static bool adds_up_parts(KernelId kernel) {
    return kernel == KERNEL_sum_forward || kernel == KERNEL_batch_norm_stats ||
           kernel == KERNEL_batch_norm_backward_sums;
}

KernelTraffic kernel_traffic(Software software, KernelId kernel, const void *args) {
    KernelTraffic t = {.launches = 1, .work = kernel_cost(kernel, args)};
    const Conv *conv = conv_shape(kernel, args);
    const struct gemm_args *gemm = args;
    if (kernel == KERNEL_gemm) t.products = (Products){1, gemm->M, gemm->N, gemm->K};
    if (software == BY_ONE_LAUNCH) return t;
    if (adds_up_parts(kernel)) t.launches = 2;
    if (conv) add_our_convolution(&t, conv, args);
    return t;
}
