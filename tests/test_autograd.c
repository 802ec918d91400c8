// test_autograd.c: the tape, and gradients against finite differences, where there are no figures
// of PyTorch's (test_reference.c has those, of operations alone).
//
// The derivative of L with respect to x is compared with (L(x + eps) - L(x - eps)) / (2 eps). L is
// the sum of an operation's output times random numbers R, added up in double from the float
// output; then R is what backward_from() starts with. Where L is a polynomial of degree 1 or 2 in
// each x the formula has no error of its own, so that eps can be large and float's rounding does
// not matter. (LeNet's gradients are in test_splitting.c, ResNet-18's in test_resnet18.c.)
#include "cases.h"
#include "common/tensor/batch_norm.h"
#include "common/tensor/transformer.h"

DEATHS_FIRST

// Of a value that the tape does not train.
static Tensor *constant(const Tensor *like, int ndim, float value) {
    Tensor *t = keep(tensor_of_shape(like->device, ndim, like->shape));
    tensor_fill(t, value);
    return t;
}

// A label for each row of X, of 4 classes.
static Tensor *labels(const Tensor *X) {
    Tensor *y = constant(X, 1, 0);
    float *values = values_of(y);
    for (int i = 0; i < X->shape[0]; i++) values[i] = (float)(i * i % 7 % 4);
    tensor_write(y, values);
    return y;
}

// Each element of t is `factor` times the one in `values`, up to rounding.
static void expect_multiple(const Tensor *t, const float *values, double factor) {
    double expected[64];
    assert_true(numel(t) <= COUNT(expected));
    for (size_t i = 0; i < numel(t); i++) expected[i] = factor * values[i];
    assert_all_close(values_of(t), expected, numel(t), 2e-6, "gradient");
}

// ---- finite differences ----------------------------------------------------------------------

enum { MAX_IN = 3, MAX_PROBES = 60 };

static struct Case {
    int shapes[MAX_IN][MAX_DIMS]; // of the inputs; a 0 ends a shape
    const char *gives;            // the output's shape, if that is to be checked
    double eps, tolerance;        // default: those for polynomials of degree 2
    const char *name;
    Tensor *(*operation)(Tensor *a, Tensor *b, Tensor *c);
} cases[64];
static size_t num_cases;

// L where element i of t is x, without writing anything on the tape.
static double weighted_sum(const struct Case *c, Tensor *const in[], const float *R, Tensor *t,
                           float *values, size_t i, float x) {
    float before = values[i];
    values[i] = x;
    tensor_write(t, values);
    values[i] = before;
    begin_step(t->device);
    set_grad_enabled(false);
    Tensor *Y = c->operation(in[0], in[1], in[2]);
    set_grad_enabled(true);
    float *output = tensor_values(Y);
    double total = 0;
    for (size_t j = 0; j < numel(Y); j++) total += (double)output[j] * R[j];
    free(output);
    return total;
}

static double rms(const float *values, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)values[i] * values[i];
    return sqrt(squares / (double)n);
}

// All elements of a small input, an even choice among those of a large one.
static void check_input(const struct Case *c, Tensor *const in[], const float *R, Tensor *t) {
    size_t n = numel(t), step = (n + MAX_PROBES - 1) / MAX_PROBES;
    float *values = values_of(t), *grad = values_of(t->grad), eps = c->eps ? (float)c->eps : 0.25f;
    double scale = rms(grad, n), tolerance = c->tolerance ? c->tolerance : 1e-4;
    if (!(scale > 1e-3)) fail_msg("%s: the gradient is zero", c->name); // nothing to compare
    for (size_t i = 0; i < n; i += step) {
        float less = values[i] - eps, more = values[i] + eps;
        double numeric = (weighted_sum(c, in, R, t, values, i, more) -
                          weighted_sum(c, in, R, t, values, i, less)) /
                         ((double)more - less);
        if (!(fabs(numeric - grad[i]) <= tolerance * fmax(fabs(numeric), scale)))
            fail_msg("%s: element %zu of the gradient of a tensor %s is %.7g, by differences %.7g",
                     c->name, i, shape_text(t), grad[i], numeric);
    }
    tensor_write(t, values);
}

TEST_ON_BOTH(test_gradients) {
    Device *device = device_under_test(state);
    assert_true(num_cases > 0 && num_cases <= COUNT(cases));
    for (const struct Case *c = cases; c < cases + num_cases; c++) {
        Tensor *in[MAX_IN] = {NULL};
        next_seed = 0; // whatever rows are above
        for (int i = 0, ndim = 0; i < MAX_IN && c->shapes[i][0]; i++, ndim = 0) {
            while (ndim < MAX_DIMS && c->shapes[i][ndim]) ndim++;
            in[i] = trained(random_tensor(device, ndim, c->shapes[i]));
        }
        begin_step(device);
        Tensor *Y = c->operation(in[0], in[1], in[2]);
        if (c->gives && strcmp(shape_text(Y), c->gives) != 0)
            fail_msg("%s has the shape %s instead of %s", c->name, shape_text(Y), c->gives);
        Tensor *dY = random_tensor(device, Y->ndim, Y->shape);
        backward_from(Y, dY);
        for (int i = 0; i < MAX_IN && in[i]; i++) check_input(c, in, values_of(dY), in[i]);
    }
}

// GRADIENT((a row of cases[]), return what is computed from the inputs a, b and c)
#define INSIDE(...) __VA_ARGS__
#define GRADIENT(CASE, ...)                                                                        \
    static Tensor *JOIN(compute_, __LINE__)(Tensor * a, Tensor * b, Tensor * c) {                  \
        (void)a, (void)b, (void)c;                                                                 \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    AT_START(cases[num_cases++] = (struct Case){INSIDE CASE, .name = #__VA_ARGS__,                 \
                                                .operation = JOIN(compute_, __LINE__)})

// clang-format off
GRADIENT(({{2, 2, 5, 4}, {3, 2, 3, 3}, {3}}, "(2, 3, 2, 2)", .eps = 2e-3, .tolerance = 1e-2),
         return conv2d_relu_avg_pool2d(a, b, c, .padding = 1))
GRADIENT(({{3, 2, 2, 5}, {3, 2, 2, 5}}), return add(a, b))
GRADIENT(({{3, 5}}), return add(a, constant(a, 2, 3))) // only one term is trained
GRADIENT(({{3, 5}}), return add(constant(a, 2, 3), a))
GRADIENT(({{2, 3, 2, 2}}, "(6, 4)"), return reshape(a, -1, 4))
// In place: what is overwritten is the output of an operation that does not need it.
GRADIENT(({{5, 7}, {7}}, .eps = 2e-3, .tolerance = 1e-2), return relu_(add_bias(a, b)))
GRADIENT(({{5, 7}, {7}}), return add_(add_bias(a, b), a))
GRADIENT(({{4, 5}, {5}, {5, 5}}, .eps = 2e-3, .tolerance = 1e-2),
         Tensor *h = relu_(add_bias(a, b)); return relu_(add_(add_bias(mm(h, c), b), h)))
// A network of several. The more operations, the more kinks of relu are within eps.
GRADIENT(({{3, 4, 4, 4}, {4, 4, 2, 2}}, .eps = 2e-3, .tolerance = 1e-2),
         Tensor *h = avg_pool2d(relu(conv2d(a, b, NULL, .padding = 1)), .kernel = 2);
         return sum(cross_entropy(mm(reshape(h, 3, -1), reshape(b, 16, -1)), labels(a))))
// The gradient of a tensor that is used twice is the sum of what both uses give.
GRADIENT(({{4, 4}}), return mm(a, a))
GRADIENT(({{4, 3}}), return add(a, a))
GRADIENT(({{2, 2, 4, 3}, {2, 2, 3, 3}}), // around a layer, as in ResNet; then once more
         Tensor *h = relu(a), *d = add(conv2d(h, b, NULL, .padding = 1), h);
         return add(add(d, h), d))
GRADIENT(({{3, 4}}), Tensor *h = relu(a); return mm(h, reshape(h, 4, -1)))
GRADIENT(({{1, 12}}), Tensor *h = relu(a); return add_bias(h, reshape(h, -1)))
GRADIENT(({{1, 6}}), return add_bias(a, reshape(a, -1)))
GRADIENT(({{2, 2, 3, 3}}), Tensor *h = relu(a); return conv2d(h, h, NULL, .padding = 1))
GRADIENT(({{2, 2, 4, 4}, {2, 2, 3, 3}, {2}}), return conv2d(conv2d(a, b, c, .padding = 1), b, c))
GRADIENT(({{2, 1, 4, 4}}),
         Tensor *h = relu(a), *d = avg_pool2d(h, .kernel = 3, .stride = 1); // 2 x 2, as the other
         return mm(reshape(avg_pool2d(h, .kernel = 2), 2, -1), reshape(d, -1, 2)))
GRADIENT(({{3, 3}}), Tensor *h = relu(a); return mm(relu(h), relu(h)))
GRADIENT(({{4, 3, 2, 3}, {3}, {3}}, .eps = 1e-2, .tolerance = 5e-3),
         return batch_norm(a, (BatchNormTensors){b, c, constant(b, 1, 0.5f), constant(b, 1, 1.5f)},
                           (BatchNormOptions){.training = true, .eps = 1e-5f}))
GRADIENT(({{4, 3, 2, 3}, {3}, {3}}),
         return batch_norm(a, (BatchNormTensors){b, c, constant(b, 1, 0.5f), constant(b, 1, 1.5f)},
                           (BatchNormOptions){.training = false, .eps = 1e-5f}))
// A transformer's. (Sequences of 3 tokens; heads of 2 and of 5 numbers.)
GRADIENT(({{6, 5}, {3, 5}}, "(6, 5)"), return add_position(a, b))
GRADIENT(({{6, 5}}, "(2, 5)"), return mean_of_tokens(a, 3))
GRADIENT(({{4, 16}, {8, 16}}, "(4, 8)"), return linear_by_rows(a, b, 4))
GRADIENT(({{4, 16}, {8, 16}}, "(4, 8)"), return linear_by_columns(a, b, 2))
GRADIENT(({{3, 19}, {19}, {19}}, .eps = 1e-2, .tolerance = 1e-3), return layer_norm(a, b, c))
GRADIENT(({{3, 19}}, .eps = 1e-2, .tolerance = 1e-3), return gelu(a))
GRADIENT(({{6, 12}}, "(6, 4)", .eps = 1e-2, .tolerance = 1e-3), return attention(a, 3, 2))
GRADIENT(({{6, 15}}, "(6, 5)", .eps = 1e-2, .tolerance = 1e-3), return attention(a, 3, 1))
GRADIENT(({{20, 6}}, "(20, 2)", .eps = 1e-2, .tolerance = 1e-3), return attention(a, 20, 1))
GRADIENT(({{4, 6}, {6, 2}}, .eps = 1e-2, .tolerance = 1e-3), // used twice
         Tensor *h = gelu(a); return add(attention(h, 2, 2), mm(h, b)))
// clang-format on

// ---- the tape --------------------------------------------------------------------------------

// Two minibatches are on one tape, operation by operation. Each backward() takes only its own, and
// gradients of parameters add up.
static void check_microbatches(Device *device, int first) {
    Tensor *W = PARAM(device, 2, 1, 3, 3), *b = PARAM(device, 2), *conv[2], *loss[2];
    Tensor *X[2] = {PARAM(device, 2, 1, 5, 5), PARAM(device, 1, 1, 5, 5)};
    float *alone_W[2], *alone_X[2];
    for (int i = 0; i < 2; i++) { // what each gives by itself
        tensor_fill(W->grad, 0);
        begin_step(device);
        backward(sum(relu(conv2d(X[i], W, b))));
        alone_W[i] = values_of(W->grad);
        alone_X[i] = values_of(X[i]->grad);
        tensor_fill(X[i]->grad, 0);
    }
    tensor_fill(W->grad, 0);
    begin_step(device);
    for (int i = 0; i < 2; i++) conv[i] = conv2d(X[i], W, b);
    for (int i = 0; i < 2; i++) loss[i] = relu(conv[i]);
    for (int i = 0; i < 2; i++) loss[i] = sum(loss[i]);
    backward(loss[first]);
    expect_multiple(W->grad, alone_W[first], 1);
    expect_multiple(X[first]->grad, alone_X[first], 1);
    expect_multiple(X[1 - first]->grad, alone_X[1 - first], 0);
    backward(loss[1 - first]);
    for (int i = 0; i < 2; i++) expect_multiple(X[i]->grad, alone_X[i], 1);
    for (size_t i = 0; i < numel(W); i++) alone_W[0][i] += alone_W[1][i];
    expect_multiple(W->grad, alone_W[0], 1);
    for (int i = 0; i < 2; i++) { // and in steps of their own
        begin_step(device);
        backward(sum(relu(conv2d(X[i], W, b))));
    }
    expect_multiple(W->grad, alone_W[0], 2);
}

TEST_ON_BOTH(test_microbatches) {
    Device *device = device_under_test(state);
    check_microbatches(device, 0);
    check_microbatches(device, 1);
}

static Tensor *loss_of(Tensor *X, Tensor *W, Tensor *b) {
    return sum(cross_entropy(linear(relu(X), W, b), labels(X)));
}

TEST_ON_BOTH(test_no_grad_records_nothing) {
    Device *device = device_under_test(state);
    Tensor *X = PARAM(device, 4, 3), *W = PARAM(device, 4, 3), *b = PARAM(device, 4), *loss[2];
    size_t used[2];
    begin_step(device);
    for (int recorded = 0; recorded < 2; recorded++) {
        set_grad_enabled(recorded);
        loss[recorded] = loss_of(X, W, b);
        used[recorded] = arena_used_bytes(device);
    }
    assert_false(loss[0]->requires_grad || loss[0]->grad);
    assert_int_equal(used[1], 2 * used[0]); // gradients are yet to come
    assert_true(item(loss[1]) == item(loss[0]));
    backward(loss[1]);
    assert_true(arena_used_bytes(device) > used[1]);
}

TEST_ON_BOTH(test_reshape_shares_data_and_gradient) {
    Device *device = device_under_test(state);
    Tensor *X = PARAM(device, 2, 3, 4);
    begin_step(device);
    Tensor *h = relu(X), *view = reshape(h, 4, -1), *view_of_view = reshape(view, 24);
    assert_ptr_equal(view->data, h->data);
    assert_ptr_equal(view_of_view->data, h->data);
    assert_ptr_equal(reshape(X, 24)->grad->data, X->grad->data);
}

// A device may get no rows of a small minibatch: its gradients are zero, and it goes on.
TEST_ON_BOTH(test_no_rows) {
    Device *device = device_under_test(state);
    Tensor *X = keep(tensor_new(device, 0, 1, 4, 4)), *all[3];
    Tensor *W = all[0] = PARAM(device, 2, 1, 3, 3), *b = all[1] = PARAM(device, 2);
    Tensor *M = all[2] = PARAM(device, 2, 4);
    begin_step(device);
    Tensor *h = avg_pool2d(relu(conv2d(X, W, b)), .kernel = 2);
    Tensor *loss = sum(cross_entropy(mm(reshape(h, h->shape[0], -1), M), labels(X)));
    backward(loss);
    assert_true(item(loss) == 0);
    for (int i = 0; i < 3; i++) expect_multiple(all[i]->grad, values_of(all[i]), 0);
}

// ---- the hook of final gradients -------------------------------------------------------------

// "A 16, ": the tensor's name, and the first element of its gradient as it was at the call.
static void note_call(Tensor *t, void *text) {
    size_t end = strlen(text);
    snprintf((char *)text + end, 64 - end, "%s %g, ", t->name, (double)values_of(t->grad)[0]);
}

static Tensor *ones(Device *device, const char *name, char *calls) {
    Tensor *t = keep(tensor_new(device, 2, 2));
    tensor_fill(t, 1);
    t->name = name;
    if (calls) when_grad_is_final(trained(t), note_call, calls);
    return t;
}

// sum(X A B A) of matrices of ones: A is read first and last, so its gradient, 8 + 8, is final only
// when the first product has gone back; B's, 8, is final before.
TEST_ON_BOTH(test_hook_of_final_gradients) {
    Device *device = device_under_test(state);
    char calls[64] = "";
    Tensor *X = ones(device, "X", NULL), *A = ones(device, "A", calls);
    Tensor *B = ones(device, "B", calls);
    ones(device, "not used: no call", calls);
    begin_step(device);
    backward(sum(mm(mm(mm(X, A), B), A)));
    assert_string_equal(calls, "B 8, A 16, ");

    // Two losses on one tape: after the first backward() the second one has yet to add its part.
    begin_step(device);
    Tensor *first = sum(mm(X, A)), *second = sum(mm(mm(X, A), B));
    calls[0] = '\0';
    backward(first);
    assert_string_equal(calls, "");
    backward(second);
    assert_string_equal(calls, "B 12, A 22, ");

    // A reshaped parameter is the parameter; no hook, no call.
    begin_step(device);
    calls[0] = '\0';
    when_grad_is_final(B, NULL, NULL);
    backward(sum(mm(mm(X, reshape(A, 2, 2)), B)));
    assert_string_equal(calls, "A 26, ");
}

// ---- the arena -------------------------------------------------------------------------------

enum { MAX_STEPS = 6 };

// One training step; writes down where some activations are.
static void train_step(Tensor *X, Tensor *y, Tensor *const params[], const void *addresses[3]) {
    begin_step(X->device);
    Tensor *h = conv2d(X, params[0], params[1]), *pooled = avg_pool2d(relu(h), .kernel = 2);
    Tensor *scores = add_bias(mm(reshape(pooled, X->shape[0], -1), params[2]), params[3]);
    Tensor *loss = sum(cross_entropy(scores, y));
    addresses[0] = h->data, addresses[1] = pooled->data, addresses[2] = loss->data;
    backward(loss);
    sgd(params, 4, 0.1f, X->shape[0]);
}

// The rows tell which sizes of minibatch come one after the other; a 0 ends them.
static void check_steps(Device *device, int side, const int rows[MAX_STEPS]) {
    int pooled = (side - 2) / 2;
    Tensor *params[] = {PARAM(device, 4, 1, 3, 3), PARAM(device, 4),
                        PARAM(device, 4 * pooled * pooled, 4), PARAM(device, 4)};
    Tensor *X[MAX_STEPS], *y[MAX_STEPS];
    const void *first[3], *now[3];
    size_t reserved = 0, bytes = 0;
    for (int i = 0; i < MAX_STEPS && rows[i]; i++) {
        X[i] = RANDOM(device, rows[i], 1, side, side);
        y[i] = labels(X[i]);
    }
    autograd_close();
    for (int i = 0; i < MAX_STEPS && rows[i]; i++) {
        train_step(X[i], y[i], params, i == 0 ? first : now);
        if (i == 0) reserved = arena_reserved_bytes(device), bytes = device_bytes(device);
        assert_true(arena_used_bytes(device) <= arena_reserved_bytes(device));
        assert_int_equal(arena_reserved_bytes(device), reserved);
        assert_int_equal(device_bytes(device), bytes);
        if (i > 0 && rows[i] == rows[0]) assert_memory_equal(now, first, sizeof now);
    }
}

TEST_ON_BOTH(test_each_step_uses_the_same_memory) {
    check_steps(device_under_test(state), 10, (const int[MAX_STEPS]){6, 6, 2, 6, 1, 6});
}

// Activations of 12 MB and their gradients: the arena needs several blocks, one larger than usual.
TEST_ON_BOTH_UNLESS_SIMULATED(test_same_memory_of_a_large_step) {
    check_steps(device_under_test(state), 302, (const int[MAX_STEPS]){9, 9});
    check_steps(device_under_test(state), 302, (const int[MAX_STEPS]){14, 14, 3, 14});
}

// ---- what ends the program -------------------------------------------------------------------

#define ON(device, ...) tensor_of_shape(cpu_device(device), SHAPE(__VA_ARGS__))
#define T(...)          ON(0, __VA_ARGS__)
#define P(...)          trained(T(__VA_ARGS__))

static Tensor *W3(Tensor *t) { return t->name = "W3", t; }

#define NO_MATCH(OPERATION, WRONG, RIGHT, ...)                                                     \
    DIES(#OPERATION ": " WRONG " does not go with tensor of shape " RIGHT, OPERATION(__VA_ARGS__))
#define APART(OPERATION, WHERE, ...) DIES(#OPERATION ": tensor " WHERE, OPERATION(__VA_ARGS__))

// clang-format off
NO_MATCH(mm, "W3 of shape (4, 5)", "(2, 3)", T(2, 3), W3(T(4, 5)))
NO_MATCH(mm, "tensor of shape (3, 5)", "(2, 3, 1, 1)", T(2, 3, 1, 1), T(3, 5))
NO_MATCH(linear, "tensor of shape (3, 5)", "(2, 3)", T(2, 3), T(3, 5), NULL)
NO_MATCH(add_bias, "tensor of shape (4,)", "(2, 3)", T(2, 3), T(4))
NO_MATCH(add, "tensor of shape (3, 2)", "(2, 3)", T(2, 3), T(3, 2))
NO_MATCH(add, "tensor of shape (2, 3, 1)", "(2, 3)", T(2, 3), T(2, 3, 1))
NO_MATCH(conv2d, "tensor of shape (3, 4, 3, 3)", "(1, 2, 5, 5)", T(1, 2, 5, 5), T(3, 4, 3, 3), NULL)
NO_MATCH(conv2d, "tensor of shape (4,)", "(3, 2, 3, 3)", T(1, 2, 5, 5), T(3, 2, 3, 3), T(4))
NO_MATCH(conv2d, "tensor of shape (1, 1, 3, 3)", "(1, 1, 2, 2)", T(1, 1, 2, 2), T(1, 1, 3, 3), NULL)
NO_MATCH(cross_entropy, "tensor of shape (3,)", "(2, 3)", T(2, 3), T(3))
DIES("add_bias: tensor of shape (4,) does not go with tensor of shape (2, 5)",
     linear(T(2, 3), T(5, 3), T(4)))
DIES("cannot copy a tensor (3, 2) to a tensor (2, 3)", tensor_copy(T(2, 3), T(3, 2)))
DIES("cannot copy a tensor (3, 2) to a tensor (2, 3)", backward_from(relu(P(2, 3)), T(3, 2)))
APART(mm, "(2, 3) is on cpu:0, but W3 (3, 5) is on cpu:1", T(2, 3), W3(ON(1, 3, 5)))
APART(mm, "(2, 3) is on cpu:0, but tensor (3, 5) is on host", T(2, 3), tensor_new(host(), 3, 5))
APART(linear, "(2, 3) is on cpu:1, but tensor (5, 3) is on cpu:0", ON(1, 2, 3), T(5, 3), NULL)
APART(add_bias, "(2, 3) is on cpu:0, but tensor (3,) is on cpu:2", T(2, 3), ON(2, 3))
APART(add, "(2, 3) is on cpu:0, but tensor (2, 3) is on cpu:1", T(2, 3), ON(1, 2, 3))
APART(conv2d, "(1, 1, 5, 5) is on cpu:0, but tensor (1, 1, 3, 3) is on cpu:1",
      T(1, 1, 5, 5), ON(1, 1, 1, 3, 3), NULL)
APART(conv2d, "(1, 1, 5, 5) is on cpu:0, but tensor (1,) is on cpu:1",
      T(1, 1, 5, 5), T(1, 1, 3, 3), ON(1, 1))
APART(cross_entropy, "(2, 3) is on cpu:0, but tensor (2,) is on cpu:1", T(2, 3), ON(1, 2))
APART(count_correct, "(2, 3) is on cpu:0, but tensor (2,) is on cpu:1", T(1), T(2, 3), ON(1, 2))
APART(count_correct, "(2, 3) is on cpu:0, but tensor (1,) is on cpu:1", ON(1, 1), T(2, 3), T(2))
DIES("the host has no queue", relu(tensor_new(host(), 3, 5)))
DIES("sum() the losses first", backward(relu(P(2, 3))))
DIES("cannot be overwritten", relu_(P(2, 3)))
DIES("cannot be overwritten", Tensor *h = add_bias(P(2, 3), T(3)); mm(h, T(3, 2)); relu_(h))
DIES("cannot be overwritten", add_(relu(P(2, 3)), T(2, 3)))
DIES("cannot be overwritten", add_(reshape(relu(P(2, 3)), 3, 2), T(3, 2)))
DIES("values are needed for gradients", Tensor *X = add(T(2, 3), T(2, 3)); mm(X, P(3, 2)); relu_(X))
DIES("values are needed for gradients", Tensor *h = add_bias(P(2, 3), T(3)); mm(h, T(3, 2));
     set_grad_enabled(false); relu_(h))
DIES("not the output of an operation", add_(T(2, 3), P(2, 3)))
DIES("requires a gradient", backward(sum(T(2, 3))))
DIES("requires a gradient", backward_from(relu(T(2, 3)), T(2, 3)))
DIES("requires a gradient", set_grad_enabled(false); backward(sum(P(2, 3))))
DIES("attach_grad()", Tensor *p = T(2); sgd(&p, 1, 0.1f, 1))
DIES("at least one row", Tensor *p = P(2); sgd(&p, 1, 0.1f, 0))
DIES("as many elements", reshape(T(2, 3), 4, 2))
DIES("as many elements", reshape(T(2, 3), 4, -1))
DIES("only one size may be -1", reshape(T(2, 3), -1, -1))
DIES("X is (N,C,H,W)", avg_pool2d(T(2, 3), .kernel = 2))
DIES(".kernel = 2", avg_pool2d(T(1, 1, 4, 4), .stride = 2))
DIES("smaller than the window", avg_pool2d(T(1, 1, 4, 1), .kernel = 2))
DIES("strides are positive", avg_pool2d(T(1, 1, 4, 4), .kernel = 2, .stride = -2))
DIES("strides are positive", conv2d(T(1, 1, 4, 4), T(1, 1, 3, 3), NULL, .stride = -1))
DIES("paddings are not negative", conv2d(T(1, 1, 4, 4), T(1, 1, 3, 3), NULL, .padding = -1))
DIES("trained together", conv2d(T(1, 1, 4, 4), P(1, 1, 3, 3), T(1)))
DIES("one element", item(T(2)))
DIES("add up the losses", Tensor *h = relu(P(2, 3)); backward(sum(h)); backward(sum(h)))
DIES("add up the losses", Tensor *loss = sum(P(3)); backward(loss); backward(loss))
DIES("add up the losses", Tensor *h = relu(P(2)); backward_from(h, T(2)); backward(sum(h)))
NO_MATCH(add_position, "tensor of shape (3, 2)", "(4, 2)", T(4, 2), T(3, 2))
NO_MATCH(layer_norm, "tensor of shape (4,)", "(2, 3)", T(2, 3), T(3), T(4))
APART(layer_norm, "(2, 3) is on cpu:0, but tensor (3,) is on cpu:1", T(2, 3), T(3), ON(1, 3))
DIES("trained together", layer_norm(T(2, 3), P(3), T(3)))
DIES("images get no gradient", patches(P(1, 1, 4, 4), 2))
DIES("divides the image's height and width", patches(T(1, 1, 4, 6), 4))
DIES("attention: ", attention(T(6, 8), 3, 2))
DIES("mean_of_tokens: ", mean_of_tokens(T(6, 8), 4))
DIES("a power of two", linear_by_rows(T(2, 6), T(4, 6), 3))
DIES("equal parts", linear_by_rows(T(2, 64), T(4, 64), 64))
DIES("count_correct: ", count_correct(T(1), T(4, 3), T(2)))
DIES("one number", count_correct(T(2), T(4, 3), T(4)))
// clang-format on

int main(void) { return run_all("autograd", NULL, close_kept); }
