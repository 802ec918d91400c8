// transformer.c: as in functional.c, each operation checks its shapes, makes its output in the
// arena, launches a kernel and records itself on the tape.
#include "transformer.h"
#include "common/base/error.h"
#include "operation.h"

// ---- tokens ------------------------------------------------------------------------------------

Tensor *patches(Tensor *X, int side) {
    CHECK(X->ndim == 4, "patches: X is (N,C,H,W)");
    CHECK(!X->requires_grad, "patches: images get no gradient");
    int N = X->shape[0], C = X->shape[1], H = X->shape[2], W = X->shape[3];
    CHECK(side > 0 && H % side == 0 && W % side == 0,
          "patches: the side of a patch divides the image's height and width");
    Tensor *Y = OUTPUT(X->device, N * (H / side) * (W / side), C * side * side);
    launch(X->device, patches, .X = X->data, .Y = Y->data, .N = N, .C = C, .H = H, .W = W,
           .side = side);
    return Y;
}

Tensor *add_position(Tensor *X, Tensor *P) {
    check_same_device("add_position", X, P);
    if (X->ndim != 2 || P->ndim != 2 || X->shape[1] != P->shape[1] || P->shape[0] == 0 ||
        X->shape[0] % P->shape[0] != 0)
        wrong_shape("add_position", "X is (N T,D), P is (T,D)", X, P);
    return add_rows(X, P);
}

// As one image for each sequence, with a window that is as high as the image.
Tensor *mean_of_tokens(Tensor *X, int tokens) {
    CHECK(X->ndim == 2 && tokens > 0 && X->shape[0] % tokens == 0, "mean_of_tokens: X is (N T,D)");
    int N = X->shape[0] / tokens, D = X->shape[1];
    Tensor *sequences = reshape(X, N, 1, tokens, D);
    return reshape(avg_pool2d(sequences, .kernel_hw = {tokens, 1}), N, D);
}

// ---- layers for each token by itself -------------------------------------------------------------

static void layer_norm_backward(Node *node) {
    Tensor *X = node->in[0], *weight = node->in[1], *bias = node->in[2], *Y = node->out;
    int rows = X->shape[0], cols = X->shape[1];
    if (weight->requires_grad) {
        float beta = grad_beta(weight), beta_of_bias = grad_beta(bias);
        CHECK(beta == beta_of_bias,
              "layer_norm: the gradients of weight and bias are added to, or both are new");
        launch(Y->device, layer_norm_backward_params, .dY = Y->grad->data, .X = X->data,
               .stats = node->saved->data, .dweight = weight->grad->data, .dbias = bias->grad->data,
               .beta = beta, .rows = rows, .cols = cols, .groups = row_groups(weight, rows));
    }
    if (X->requires_grad)
        launch(Y->device, layer_norm_backward_input, .dY = Y->grad->data, .X = X->data,
               .stats = node->saved->data, .weight = weight->data, .dX = X->grad->data,
               .beta = grad_beta(X), .rows = rows, .cols = cols);
}

static void check_layer_norm(const Tensor *X, const Tensor *param) {
    check_same_device("layer_norm", X, param);
    if (X->ndim != 2 || param->ndim != 1 || X->shape[1] != param->shape[0])
        wrong_shape("layer_norm", "X is (n,D), weight and bias are (D)", X, param);
}

Tensor *layer_norm(Tensor *X, Tensor *weight, Tensor *bias) {
    check_layer_norm(X, weight);
    check_layer_norm(X, bias);
    // One launch writes both gradients, with one beta.
    CHECK(weight->requires_grad == bias->requires_grad,
          "weight and bias are trained together or not at all");
    Tensor *Y = arena_tensor(X->device, 2, X->shape, false);
    Tensor *stats = OUTPUT(X->device, X->shape[0], 2);
    launch(X->device, layer_norm_forward, .X = X->data, .weight = weight->data, .bias = bias->data,
           .Y = Y->data, .stats = stats->data, .eps = 1e-5f, .rows = X->shape[0],
           .cols = X->shape[1]);
    tape_push((Node){.backward = layer_norm_backward,
                     .out = Y,
                     .in = {X, weight, bias},
                     .reads_in = true,
                     .saved = stats});
    return Y;
}

static void gelu_backward(Node *node) {
    Tensor *X = node->in[0], *Y = node->out;
    launch(Y->device, gelu_backward, .X = X->data, .dY = Y->grad->data, .dX = X->grad->data,
           .beta = grad_beta(X), .n = numel(X));
}

Tensor *gelu(Tensor *X) {
    Tensor *Y = arena_tensor(X->device, X->ndim, X->shape, false);
    launch(X->device, gelu_forward, .X = X->data, .Y = Y->data, .n = numel(X));
    tape_push((Node){.backward = gelu_backward, .out = Y, .in = {X}, .reads_in = true});
    return Y;
}

// As gemm_args says. 0 stands for any order.
static void check_groups(int groups, int n) {
    bool power_of_2 = groups >= 0 && (groups & (groups - 1)) == 0;
    CHECK(power_of_2 && groups <= 32 && (groups == 0 || n % groups == 0),
          "linear_by_..: groups are a power of two up to 32, and equal parts");
}

Tensor *linear_by_columns(Tensor *X, Tensor *W, int groups) {
    check_groups(groups, W->shape[0]);
    return matrix_product("linear_by_columns", X, W,
                          (ProductOptions){.transposed = true, .backward_groups = groups});
}

Tensor *linear_by_rows(Tensor *X, Tensor *W, int groups) {
    check_groups(groups, W->shape[1]);
    return matrix_product("linear_by_rows", X, W,
                          (ProductOptions){.transposed = true, .lent = true, .groups = groups});
}

// ---- attention: the only layer in which tokens see each other ------------------------------------

static void attention_backward(Node *node) {
    Tensor *QKV = node->in[0], *Y = node->out;
    const struct attention_shape *s = node->context;
    launch(Y->device, attention_backward, .dY = Y->grad->data, .QKV = QKV->data,
           .probs = node->saved->data, .dQKV = QKV->grad->data, .beta = grad_beta(QKV), .s = *s);
}

Tensor *attention(Tensor *QKV, int tokens, int heads) {
    CHECK(QKV->ndim == 2 && tokens > 0 && heads > 0 && QKV->shape[0] % tokens == 0 &&
              QKV->shape[1] % (3 * heads) == 0,
          "attention: QKV is (N tokens,heads 3 d)");
    struct attention_shape s = {QKV->shape[0] / tokens, tokens, heads, QKV->shape[1] / (3 * heads)};
    Tensor *Y = OUTPUT(QKV->device, s.N * s.T, heads * s.width);
    Tensor *probs = OUTPUT(QKV->device, s.N, heads, s.T, s.T);
    launch(QKV->device, attention_forward, .QKV = QKV->data, .Y = Y->data, .probs = probs->data,
           .s = s);
    tape_push((Node){.backward = attention_backward,
                     .out = Y,
                     .in = {QKV},
                     .reads_in = true,
                     .saved = probs,
                     .context = arena_note(QKV->device, &s, sizeof s)});
    return Y;
}
