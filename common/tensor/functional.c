// functional.c: each operation checks its shapes, makes its output in the arena, launches a kernel
// and records itself on the tape. The arithmetic is in kernels/.
#include "operation.h"
#include "common/base/error.h"

#include <string.h>

static const char *label(const Tensor *t) { return t->name ? t->name : "tensor"; }

// As in PyTorch, an operation never moves data between devices by itself.
void check_same_device(const char *operation, const Tensor *a, const Tensor *b) {
    if (b && a->device != b->device)
        die("copy one of them with tensor_to() first", "%s: %s %s is on %s, but %s %s is on %s",
            operation, label(a), shape_text(a), device_name(a->device), label(b), shape_text(b),
            device_name(b->device));
}

_Noreturn void wrong_shape(const char *operation, const char *expected, const Tensor *a,
                           const Tensor *b) {
    die(expected, "%s: %s of shape %s does not go with %s of shape %s", operation, label(b),
        shape_text(b), label(a), shape_text(a));
}

// How many windows fit: the formula of both convolution and pooling.
static int windows(int size, int padding, int kernel, int stride) {
    return stride <= 0 || size + 2 * padding < kernel ? 0
                                                      : (size + 2 * padding - kernel) / stride + 1;
}

// ---- conv2d ----------------------------------------------------------------------------------

// A tensor that holds bytes: see `pooled` in kernels.h.
static unsigned char *bytes_of(const Tensor *t) { return t ? (unsigned char *)t->data : NULL; }

static void conv2d_backward(Node *node) {
    Tensor *X = node->in[0], *W = node->in[1], *b = node->in[2], *Y = node->out;
    const struct conv2d_shape *s = node->context;
    if (W->requires_grad) {
        float beta = grad_beta(W), beta_of_b = b ? grad_beta(b) : beta;
        CHECK(beta == beta_of_b, "conv2d: the gradients of W and b are added to, or both are new");
        launch(Y->device, conv2d_backward_params, .dY = Y->grad->data, .X = X->data,
               .dW = W->grad->data, .db = b ? b->grad->data : NULL, .beta = beta, .s = *s,
               .pooled = bytes_of(node->saved));
    }
    if (X->requires_grad)
        launch(Y->device, conv2d_backward_input, .dY = Y->grad->data, .W = W->data,
               .dX = X->grad->data, .beta = grad_beta(X), .s = *s, .pooled = bytes_of(node->saved));
}

static struct conv2d_shape conv2d_shape_of(const Tensor *X, const Tensor *W,
                                           const Conv2dOptions *o) {
    int stride = o->stride ? o->stride : 1;
    struct conv2d_shape s = {
        .N = X->shape[0],
        .C = X->shape[1],
        .H = X->shape[2],
        .W = X->shape[3],
        .M = W->shape[0],
        .kernel_h = W->shape[2],
        .kernel_w = W->shape[3],
        .stride_h = o->stride_hw[0] ? o->stride_hw[0] : stride,
        .stride_w = o->stride_hw[1] ? o->stride_hw[1] : stride,
        .pad_h = o->padding_hw[0] ? o->padding_hw[0] : o->padding,
        .pad_w = o->padding_hw[1] ? o->padding_hw[1] : o->padding,
    };
    s.out_h = windows(s.H, s.pad_h, s.kernel_h, s.stride_h);
    s.out_w = windows(s.W, s.pad_w, s.kernel_w, s.stride_w);
    return s;
}

static void check_conv2d(const Tensor *X, const Tensor *W, const Tensor *b) {
    check_same_device("conv2d", X, W);
    check_same_device("conv2d", X, b);
    if (X->ndim != 4 || W->ndim != 4 || X->shape[1] != W->shape[1])
        wrong_shape("conv2d", "X is (N,C,H,W), W is (M,C,h,w) with the same C", X, W);
    if (b && (b->ndim != 1 || b->shape[0] != W->shape[0]))
        wrong_shape("conv2d", "b has one value for each output channel of W", W, b);
    // One launch writes both dW and db, with one beta.
    CHECK(!b || b->requires_grad == W->requires_grad, "W and b are trained together or not at all");
}

static Tensor *conv2d_and(bool relu_and_pool, Tensor *X, Tensor *W, Tensor *b,
                          const Conv2dOptions *options) {
    check_conv2d(X, W, b);
    struct conv2d_shape s = conv2d_shape_of(X, W, options);
    CHECK(s.stride_h > 0 && s.stride_w > 0 && s.pad_h >= 0 && s.pad_w >= 0,
          "conv2d: strides are positive, paddings are not negative");
    int window = relu_and_pool ? 2 : 1, out_h = s.out_h / window, out_w = s.out_w / window;
    if (out_h <= 0 || out_w <= 0)
        wrong_shape("conv2d", "the image is smaller than the kernel", X, W);
    s.out_h = out_h * window, s.out_w = out_w * window; // pixels outside all windows are left out

    Tensor *Y = OUTPUT(X->device, s.N, s.M, out_h, out_w);
    Tensor *saved = relu_and_pool ? OUTPUT(X->device, (int)((numel(Y) + 1) / 2)) : NULL; // bytes
    launch(X->device, conv2d_forward, .X = X->data, .W = W->data, .b = b ? b->data : NULL,
           .Y = Y->data, .s = s, .pooled = bytes_of(saved));
    tape_push((Node){.backward = conv2d_backward,
                     .out = Y,
                     .in = {X, W, b},
                     .reads_in = true,
                     .saved = saved,
                     .context = arena_note(X->device, &s, sizeof s)});
    return Y;
}

Tensor *conv2d_with(Tensor *X, Tensor *W, Tensor *b, Conv2dOptions options) {
    return conv2d_and(false, X, W, b, &options);
}

Tensor *conv2d_relu_avg_pool2d_with(Tensor *X, Tensor *W, Tensor *b, Conv2dOptions options) {
    return conv2d_and(true, X, W, b, &options);
}

// ---- avg_pool2d ------------------------------------------------------------------------------

static void avg_pool2d_backward(Node *node) {
    Tensor *X = node->in[0], *Y = node->out;
    const struct avg_pool2d_shape *s = node->context;
    launch(Y->device, avg_pool2d_backward, .dY = Y->grad->data, .dX = X->grad->data,
           .beta = grad_beta(X), .s = *s);
}

Tensor *avg_pool2d_with(Tensor *X, AvgPool2dOptions o) {
    CHECK(X->ndim == 4, "avg_pool2d: X is (N,C,H,W)");
    struct avg_pool2d_shape s = {
        .N = X->shape[0],
        .C = X->shape[1],
        .H = X->shape[2],
        .W = X->shape[3],
        .kernel_h = o.kernel_hw[0] ? o.kernel_hw[0] : o.kernel,
        .kernel_w = o.kernel_hw[1] ? o.kernel_hw[1] : o.kernel,
    };
    CHECK(s.kernel_h > 0 && s.kernel_w > 0, "avg_pool2d: give the size of the window, .kernel = 2");
    s.stride_h = o.stride_hw[0] ? o.stride_hw[0] : o.stride ? o.stride : s.kernel_h;
    s.stride_w = o.stride_hw[1] ? o.stride_hw[1] : o.stride ? o.stride : s.kernel_w;
    CHECK(s.stride_h > 0 && s.stride_w > 0, "avg_pool2d: strides are positive");
    s.out_h = windows(s.H, 0, s.kernel_h, s.stride_h);
    s.out_w = windows(s.W, 0, s.kernel_w, s.stride_w);
    CHECK(s.out_h > 0 && s.out_w > 0, "avg_pool2d: the image is smaller than the window");

    Tensor *Y = OUTPUT(X->device, s.N, s.C, s.out_h, s.out_w);
    launch(X->device, avg_pool2d_forward, .X = X->data, .Y = Y->data, .s = s);
    tape_push((Node){.backward = avg_pool2d_backward,
                     .out = Y,
                     .in = {X},
                     .context = arena_note(X->device, &s, sizeof s)});
    return Y;
}

// ---- relu ------------------------------------------------------------------------------------

// Needs only the output, which is positive just where the input was.
static void relu_backward(Node *node) {
    Tensor *X = node->in[0], *Y = node->out;
    launch(Y->device, relu_backward, .Y = Y->data, .dY = Y->grad->data, .dX = X->grad->data,
           .beta = grad_beta(X), .n = numel(X));
}

Tensor *relu(Tensor *X) {
    Tensor *Y = arena_tensor(X->device, X->ndim, X->shape, false);
    launch(X->device, relu_forward, .X = X->data, .Y = Y->data, .n = numel(X));
    tape_push((Node){.backward = relu_backward, .out = Y, .in = {X}, .reads_out = true});
    return Y;
}

// The gradient is changed in place, too.
static void relu_in_place_backward(Node *node) {
    Tensor *Y = node->out;
    launch(Y->device, relu_backward, .Y = Y->data, .dY = Y->grad->data, .dX = Y->grad->data,
           .beta = 0, .n = numel(Y));
}

// As in PyTorch, values that backward() needs cannot be overwritten. And if this operation is to be
// recorded (`record`), X must be an activation, which the tape can give a gradient.
static void check_in_place(const char *operation, const Tensor *X, bool record) {
    if (numel(X) == 0) return;
    const char *why = tape_reads(X)             ? "its values are needed for gradients"
                      : record && !tape_made(X) ? "it is not the output of an operation"
                                                : NULL;
    if (why)
        die("the operation without _ makes a tensor of its own",
            "%s: %s %s cannot be overwritten, %s", operation, label(X), shape_text(X), why);
}

Tensor *relu_(Tensor *X) {
    check_in_place("relu_", X, needs_grad(X, NULL, NULL));
    launch(X->device, relu_forward, .X = X->data, .Y = X->data, .n = numel(X));
    tape_push((Node){.backward = relu_in_place_backward, .out = X, .in = {X}, .reads_out = true});
    return X;
}

// ---- add -------------------------------------------------------------------------------------

// X is a term of the sum Y, so its gradient is Y's.
static void launch_add_backward(const Tensor *Y, Tensor *X) {
    launch(Y->device, add_backward, .dY = Y->grad->data, .dX = X->grad->data, .beta = grad_beta(X),
           .n = numel(X));
}

static void add_backward(Node *node) {
    for (int i = 0; i < 2; i++)
        if (node->in[i]->requires_grad) launch_add_backward(node->out, node->in[i]);
}

static void check_add(const Tensor *A, const Tensor *B) {
    check_same_device("add", A, B);
    if (!same_shape(A, B))
        wrong_shape("add", "A and B have the same shape: nothing is broadcast", A, B);
}

Tensor *add(Tensor *A, Tensor *B) {
    check_add(A, B);
    Tensor *Y = arena_tensor(A->device, A->ndim, A->shape, false);
    launch(A->device, add_forward, .A = A->data, .B = B->data, .Y = Y->data, .n = numel(A));
    tape_push((Node){.backward = add_backward, .out = Y, .in = {A, B}});
    return Y;
}

// A's gradient is the sum's already.
static void add_in_place_backward(Node *node) {
    if (node->in[1]->requires_grad) launch_add_backward(node->out, node->in[1]);
}

Tensor *add_(Tensor *A, Tensor *B) {
    check_add(A, B);
    check_in_place("add_", A, needs_grad(A, B, NULL));
    CHECK(A->data != B->data || !A->data, "add_: A and B are two tensors");
    launch(A->device, add, .y = A->data, .x = B->data, .n = numel(A));
    tape_push((Node){.backward = add_in_place_backward, .out = A, .in = {A, B}});
    return A;
}

// ---- matrix products -------------------------------------------------------------------------

static void launch_gemm(const Tensor *A, bool trans_A, const Tensor *B, bool trans_B, Tensor *C,
                        float beta, int groups) {
    launch(C->device, gemm, .A = A->data, .B = B->data, .C = C->data, .beta = beta,
           .M = C->shape[0], .N = C->shape[1], .K = A->shape[trans_A ? 0 : 1], .trans_A = trans_A,
           .trans_B = trans_B, .groups = groups);
}

int row_groups(const Tensor *p, int rows) {
    int groups = p->grad_groups;
    while (groups > 1 && rows % groups != 0) groups /= 2;
    return groups;
}

// C = A B: dA = dC B^T, dB = A^T dC. With B stored transposed: dA = dC B, dB = dC^T A.
static void product_backward(Node *node) {
    Tensor *A = node->in[0], *B = node->in[1], *C = node->out;
    const ProductOptions *o = node->context;
    if (B->requires_grad && o->transposed)
        launch_gemm(C->grad, true, A, false, B->grad, grad_beta(B), row_groups(B, A->shape[0]));
    if (B->requires_grad && !o->transposed)
        launch_gemm(A, true, C->grad, false, B->grad, grad_beta(B), row_groups(B, A->shape[0]));
    if (A->requires_grad)
        launch_gemm(C->grad, false, B, !o->transposed, A->grad, grad_beta(A), o->backward_groups);
}

Tensor *matrix_product(const char *name, Tensor *A, Tensor *B, ProductOptions o) {
    check_same_device(name, A, B);
    if (A->ndim != 2 || B->ndim != 2 || A->shape[1] != B->shape[o.transposed ? 1 : 0])
        wrong_shape(name, o.transposed ? "X is (n,in), W is (out,in)" : "A is (n,k), B is (k,m)", A,
                    B);
    int shape[] = {A->shape[0], B->shape[o.transposed ? 0 : 1]};
    Tensor *C = o.lent ? arena_lent(A->device, 2, shape) : arena_tensor(A->device, 2, shape, false);
    launch_gemm(A, false, B, o.transposed, C, 0, o.groups);
    tape_push((Node){.backward = product_backward,
                     .out = C,
                     .in = {A, B},
                     .reads_in = true,
                     .context = arena_note(A->device, &o, sizeof o)});
    return C;
}

Tensor *mm(Tensor *A, Tensor *B) { return matrix_product("mm", A, B, (ProductOptions){0}); }

static void add_rows_backward(Node *node) {
    Tensor *X = node->in[0], *b = node->in[1], *Y = node->out;
    int rows = Y->shape[0], parts = b->ndim == 1 ? 1 : b->shape[0];
    if (b->requires_grad)
        launch(Y->device, add_bias_backward, .dY = Y->grad->data, .db = b->grad->data,
               .beta = grad_beta(b), .rows = rows, .cols = Y->shape[1], .parts = parts,
               .groups = row_groups(b, rows / parts));
    if (X->requires_grad) launch_add_backward(Y, X);
}

Tensor *add_rows(Tensor *X, Tensor *b) {
    Tensor *Y = arena_tensor(X->device, 2, X->shape, false);
    launch(X->device, add_bias_forward, .X = X->data, .b = b->data, .Y = Y->data,
           .rows = X->shape[0], .cols = X->shape[1], .parts = b->ndim == 1 ? 1 : b->shape[0]);
    tape_push((Node){.backward = add_rows_backward, .out = Y, .in = {X, b}});
    return Y;
}

Tensor *add_bias(Tensor *X, Tensor *b) {
    check_same_device("add_bias", X, b);
    if (X->ndim != 2 || b->ndim != 1 || X->shape[1] != b->shape[0])
        wrong_shape("add_bias", "X is (n,m), b is (m)", X, b);
    return add_rows(X, b);
}

Tensor *linear(Tensor *X, Tensor *W, Tensor *b) {
    Tensor *Y = matrix_product("linear", X, W, (ProductOptions){.transposed = true});
    return b ? add_bias(Y, b) : Y;
}

// ---- reshape ---------------------------------------------------------------------------------

// The columns of a reshape to (0, -1). (A device without rows of a minibatch needs it, too.) There
// are no elements to count, so the columns are found from all sizes of X but the first.
static int columns_of_empty(const Tensor *X, int ndim) {
    CHECK(ndim == 2, "reshape: the size -1 of an empty tensor is known for two dimensions only");
    int columns = 1;
    for (int i = 1; i < X->ndim; i++) columns *= X->shape[i];
    return columns;
}

// Data and gradient are the same memory, so there is nothing to do backward.
Tensor *reshape_to(Tensor *X, int ndim, const int *shape) {
    CHECK(ndim >= 1 && ndim <= MAX_DIMS, "reshape: a tensor has 1 to 4 dimensions");
    int sizes[MAX_DIMS], unknown = -1;
    size_t known = 1;
    for (int i = 0; i < ndim; i++) {
        sizes[i] = shape[i];
        if (shape[i] >= 0) {
            known *= (size_t)shape[i];
        } else {
            CHECK(unknown < 0 && shape[i] == -1, "reshape: only one size may be -1");
            unknown = i;
        }
    }
    if (unknown >= 0) sizes[unknown] = known ? (int)(numel(X) / known) : columns_of_empty(X, ndim);
    Tensor *view = arena_view(X, ndim, sizes);
    CHECK(numel(view) == numel(X), "reshape: the new shape must have as many elements as the old");
    return view;
}

// ---- loss ------------------------------------------------------------------------------------

static void cross_entropy_backward(Node *node) {
    Tensor *y_hat = node->in[0], *y = node->in[1], *losses = node->out;
    launch(losses->device, cross_entropy_backward, .probs = node->saved->data, .labels = y->data,
           .dlosses = losses->grad->data, .dlogits = y_hat->grad->data, .beta = grad_beta(y_hat),
           .rows = y_hat->shape[0], .classes = y_hat->shape[1]);
}

Tensor *cross_entropy(Tensor *y_hat, Tensor *y) {
    check_same_device("cross_entropy", y_hat, y);
    if (y_hat->ndim != 2 || y->ndim != 1 || y_hat->shape[0] != y->shape[0])
        wrong_shape("cross_entropy", "y_hat is (n,classes), y is (n)", y_hat, y);
    Tensor *losses = OUTPUT(y_hat->device, y_hat->shape[0]);
    Tensor *probs = arena_tensor(y_hat->device, 2, y_hat->shape, false);
    launch(y_hat->device, cross_entropy_forward, .logits = y_hat->data, .labels = y->data,
           .losses = losses->data, .probs = probs->data, .rows = y_hat->shape[0],
           .classes = y_hat->shape[1]);
    tape_push((Node){.backward = cross_entropy_backward,
                     .out = losses,
                     .in = {y_hat, y},
                     .reads_in = true,
                     .saved = probs});
    return losses;
}

static void sum_backward(Node *node) {
    Tensor *X = node->in[0], *total = node->out;
    launch(X->device, sum_backward, .dout = total->grad->data, .dx = X->grad->data,
           .beta = grad_beta(X), .n = numel(X));
}

Tensor *sum(Tensor *X) {
    Tensor *total = OUTPUT(X->device, 1);
    launch(X->device, sum_forward, .x = X->data, .out = total->data, .n = numel(X));
    tape_push((Node){.backward = sum_backward, .out = total, .in = {X}});
    return total;
}

// ---- not differentiable ----------------------------------------------------------------------

void sgd(Tensor *const params[], int num_params, float lr, int batch_size) {
    CHECK(batch_size > 0, "sgd: a minibatch has at least one row");
    for (int i = 0; i < num_params; i++) {
        Tensor *p = params[i];
        CHECK(p->grad, "sgd: attach_grad() to each parameter first");
        launch(p->device, sgd, .param = p->data, .grad = p->grad->data, .lr = lr,
               .batch_size = batch_size, .n = numel(p));
    }
}

void count_correct(Tensor *count, const Tensor *y_hat, const Tensor *y) {
    check_same_device("count_correct", y_hat, y);
    check_same_device("count_correct", y_hat, count);
    if (y_hat->ndim != 2 || y->ndim != 1 || y_hat->shape[0] != y->shape[0])
        wrong_shape("count_correct", "y_hat is (n,classes), y is (n)", y_hat, y);
    CHECK(numel(count) == 1, "count_correct: count is one number");
    launch(y_hat->device, count_correct, .logits = y_hat->data, .labels = y->data,
           .count = count->data, .rows = y_hat->shape[0], .classes = y_hat->shape[1]);
}
