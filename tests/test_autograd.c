// test_autograd.c: the tape, and every gradient against finite differences.
//
// The derivative of L with respect to x is compared with (L(x + eps) - L(x - eps)) / (2 eps). L is
// the sum of an operation's output times random numbers R, added up in double from the float
// output; then R is what backward_from() starts with. Where L is a polynomial of degree 1 or 2 in
// each x the formula has no error of its own, so that eps can be large and float's rounding does
// not matter.
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "common/base/error.h"
#include "common/tensor/functional.h"
#include "dies.h"

// ---- tensors and their values ----------------------------------------------------------------

// Random numbers of either sign whose size is between 0.3 and 1: a step of eps < 0.3 does not cross
// the kink of relu.
static void fill_random(Tensor *t) {
    float *values = xmalloc(tensor_bytes(t) + 1);
    random_floats(values, numel(t), next_seed++);
    for (size_t i = 0; i < numel(t); i++) values[i] = copysignf(0.3f, values[i]) + 0.7f * values[i];
    tensor_write(t, values);
    free(values);
}

static Tensor *random_like(const Tensor *t) {
    Tensor *random = tensor_of_shape(t->device, t->ndim, t->shape);
    fill_random(random);
    return random;
}

static Tensor *param_of_shape(Device *device, int ndim, const int *shape) {
    Tensor *t = tensor_of_shape(device, ndim, shape);
    fill_random(t);
    attach_grad(t);
    return t;
}
#define PARAM(device, ...)                                                                         \
    param_of_shape((device), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)),                    \
                   (const int[]){__VA_ARGS__})

static Tensor *labels_of(Device *device, int rows, int classes) {
    Tensor *y = tensor_new(device, rows);
    float *values = xmalloc(tensor_bytes(y));
    for (int i = 0; i < rows; i++)
        values[i] = (float)(random_bits(next_seed, STREAM_TEST, (uint64_t)i) % (uint64_t)classes);
    next_seed++;
    tensor_write(y, values);
    free(values);
    return y;
}

// Each element of t is `factor` times the one in `values`, up to rounding.
static void expect_multiple(const Tensor *t, const float *values, double factor) {
    float *got = tensor_values(t);
    double *expected = xcalloc(numel(t), sizeof *expected);
    for (size_t i = 0; i < numel(t); i++) expected[i] = factor * values[i];
    assert_all_close(got, expected, numel(t), 2e-6, "gradient");
    free(got);
    free(expected);
}

// ---- finite differences ----------------------------------------------------------------------

enum { MAX_IN = 3, MAX_PROBES = 60 };

typedef struct Case {
    const char *name;
    Tensor *(*operation)(Tensor *const in[]);
    int shapes[MAX_IN][MAX_DIMS]; // of the inputs; a 0 ends a shape
    int classes;                  // the last input holds labels of so many classes, and no gradient
    double eps, tolerance;        // default: those for polynomials of degree 2
} Case;

static int make_inputs(const Case *c, Device *device, Tensor *in[MAX_IN]) {
    int count = 0;
    while (count < MAX_IN && c->shapes[count][0]) {
        int ndim = 0;
        while (ndim < MAX_DIMS && c->shapes[count][ndim]) ndim++;
        bool holds_labels = c->classes && (count == MAX_IN - 1 || !c->shapes[count + 1][0]);
        in[count] = holds_labels ? labels_of(device, c->shapes[count][0], c->classes)
                                 : param_of_shape(device, ndim, c->shapes[count]);
        count++;
    }
    return count;
}

// L, without writing anything on the tape.
static double weighted_sum(const Case *c, Device *device, Tensor *const in[], const float *R) {
    begin_step(device);
    set_grad_enabled(false);
    Tensor *Y = c->operation(in);
    set_grad_enabled(true);
    float *values = tensor_values(Y);
    double total = 0;
    for (size_t i = 0; i < numel(Y); i++) total += (double)values[i] * R[i];
    free(values);
    return total;
}

static double difference_quotient(const Case *c, Device *device, Tensor *const in[], const float *R,
                                  Tensor *t, float *values, size_t i) {
    float x = values[i], eps = (float)(c->eps ? c->eps : 0.25), ends[2] = {x - eps, x + eps};
    double L[2];
    for (int side = 0; side < 2; side++) {
        values[i] = ends[side];
        tensor_write(t, values);
        L[side] = weighted_sum(c, device, in, R);
    }
    values[i] = x;
    tensor_write(t, values);
    return (L[1] - L[0]) / ((double)ends[1] - ends[0]);
}

static double rms(const float *values, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)values[i] * values[i];
    return sqrt(squares / (double)n);
}

// All elements of a small input, an even choice among those of a large one.
static void check_input(const Case *c, Device *device, Tensor *const in[], const float *R,
                        int input) {
    Tensor *t = in[input];
    size_t n = numel(t), step = (n + MAX_PROBES - 1) / MAX_PROBES;
    float *values = tensor_values(t), *grad = tensor_values(t->grad);
    double scale = rms(grad, n), tolerance = c->tolerance ? c->tolerance : 1e-4;
    assert_true(scale > 1e-3); // else there would be nothing to compare
    for (size_t i = 0; i < n; i += step) {
        double numeric = difference_quotient(c, device, in, R, t, values, i);
        if (!(fabs(numeric - grad[i]) <= tolerance * fmax(fabs(numeric), scale)))
            fail_msg("%s: element %zu of the gradient of input %d is %.7g, by differences %.7g",
                     c->name, i, input, grad[i], numeric);
    }
    free(values);
    free(grad);
}

static void check_gradient(Device *device, const Case *c) {
    Tensor *in[MAX_IN];
    int count = make_inputs(c, device, in);
    begin_step(device);
    Tensor *Y = c->operation(in);
    Tensor *dY = random_like(Y);
    float *R = tensor_values(dY);
    backward_from(Y, dY);
    synchronize(device);
    for (int i = 0; i < count; i++)
        if (in[i]->grad) check_input(c, device, in, R, i);
    for (int i = 0; i < count; i++) tensor_free(in[i]);
    tensor_free(dY);
    free(R);
}

// GRADIENT(name, what is computed from in[], .shapes = {of in[0], of in[1], ...}, ...)
#define GRADIENT(NAME, OUTPUT, ...)                                                                \
    static Tensor *compute_##NAME(Tensor *const in[]) { return OUTPUT; }                           \
    static void test_gradient_of_##NAME(void **state) {                                            \
        Case c = {.name = #NAME, .operation = compute_##NAME, __VA_ARGS__};                        \
        check_gradient(device_under_test(state), &c);                                              \
    }

// ---- each operation --------------------------------------------------------------------------

// clang-format off
GRADIENT(conv2d, conv2d(in[0], in[1], in[2]), .shapes = {{2, 2, 5, 4}, {3, 2, 3, 3}, {3}})
GRADIENT(conv2d_with_stride_and_padding, conv2d(in[0], in[1], in[2], .stride = 2, .padding = 1),
         .shapes = {{3, 2, 6, 5}, {2, 2, 3, 3}, {2}})
GRADIENT(conv2d_that_is_not_square,
         conv2d(in[0], in[1], in[2], .stride_hw = {1, 3}, .padding_hw = {2, 1}),
         .shapes = {{1, 3, 4, 8}, {2, 3, 4, 2}, {2}})
GRADIENT(conv2d_1x1_without_bias, conv2d(in[0], in[1], NULL),
         .shapes = {{2, 3, 4, 3}, {4, 3, 1, 1}})
GRADIENT(conv2d_relu_avg_pool2d,
         conv2d_relu_avg_pool2d(in[0], in[1], in[2], .padding = 1),
         .shapes = {{2, 2, 5, 4}, {3, 2, 3, 3}, {3}}, .eps = 2e-3, .tolerance = 1e-2)
GRADIENT(avg_pool2d, avg_pool2d(in[0], .kernel = 2, .stride = 2), .shapes = {{2, 2, 4, 4}})
GRADIENT(avg_pool2d_that_leaves_a_rim, avg_pool2d(in[0], .kernel = 2), .shapes = {{1, 2, 5, 5}})
GRADIENT(avg_pool2d_that_overlaps, avg_pool2d(in[0], .kernel_hw = {3, 2}, .stride_hw = {2, 1}),
         .shapes = {{2, 1, 7, 5}})
GRADIENT(relu, relu(in[0]), .shapes = {{5, 7}})
GRADIENT(add, add(in[0], in[1]), .shapes = {{3, 2, 2, 5}, {3, 2, 2, 5}})
GRADIENT(mm, mm(in[0], in[1]), .shapes = {{3, 5}, {5, 4}})
GRADIENT(add_bias, add_bias(in[0], in[1]), .shapes = {{4, 6}, {6}})
GRADIENT(linear, linear(in[0], in[1], in[2]), .shapes = {{3, 5}, {4, 5}, {4}})
GRADIENT(linear_without_bias, linear(in[0], in[1], NULL), .shapes = {{3, 5}, {4, 5}})
GRADIENT(reshape, reshape(in[0], -1, 4), .shapes = {{2, 3, 2, 2}})
GRADIENT(cross_entropy, cross_entropy(in[0], in[1]), .shapes = {{6, 5}, {6}}, .classes = 5,
         .eps = 0.02, .tolerance = 1e-3)
GRADIENT(sum, sum(in[0]), .shapes = {{3, 2, 4}})
// In place: what is overwritten is the output of an operation that does not need it.
GRADIENT(relu_in_place, relu_(add_bias(in[0], in[1])), .shapes = {{5, 7}, {7}},
         .eps = 2e-3, .tolerance = 1e-2)
GRADIENT(add_in_place, add_(add_bias(in[0], in[1]), in[0]), .shapes = {{5, 7}, {7}})
static Tensor *residual_in_place(Tensor *const in[]) {
    Tensor *h = relu_(add_bias(in[0], in[1])), *Y = add_bias(mm(h, in[2]), in[1]);
    return relu_(add_(Y, h));
}
GRADIENT(residual_in_place, residual_in_place(in), .shapes = {{4, 5}, {5}, {5, 5}},
         .eps = 2e-3, .tolerance = 1e-2)

// Differences say nothing about an option that was misread in both directions; the shapes do.
static void expect_shape(const Tensor *t, int rows, int cols) {
    if (t->shape[2] != rows || t->shape[3] != cols)
        fail_msg("shape %s instead of (.., %d, %d)", shape_text(t), rows, cols);
}

static void test_options_of_conv2d_and_avg_pool2d(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = tensor_new(device, 1, 1, 9, 12), *W = tensor_new(device, 1, 1, 3, 2);
    tensor_fill(X, 1);
    tensor_fill(W, 1);
    begin_step(device);
    expect_shape(conv2d(X, W, NULL), 7, 11);
    expect_shape(conv2d(X, W, NULL, .stride = 2), 4, 6);
    expect_shape(conv2d(X, W, NULL, .padding = 1), 9, 13);
    expect_shape(conv2d(X, W, NULL, .stride_hw = {3, 1}), 3, 11);
    expect_shape(conv2d(X, W, NULL, .padding_hw = {2, 1}), 11, 13);
    expect_shape(conv2d(X, W, NULL, .padding_hw = {0, 1}, .stride_hw = {1, 4}), 7, 4);
    expect_shape(avg_pool2d(X, .kernel = 3), 3, 4);
    expect_shape(avg_pool2d(X, .kernel = 3, .stride = 1), 7, 10);
    expect_shape(avg_pool2d(X, .kernel_hw = {2, 5}), 4, 2);
    expect_shape(avg_pool2d(X, .kernel_hw = {2, 5}, .stride_hw = {1, 3}), 8, 3);
    synchronize(device);
    tensor_free(X);
    tensor_free(W);
}

// A network of all of them. The more operations, the more kinks of relu are within eps.
static Tensor *small_network(Tensor *X, Tensor *W, Tensor *y) {
    Tensor *h = avg_pool2d(relu(conv2d(X, W, NULL, .padding = 1)), .kernel = 2); // (3,4,2,2)
    h = reshape(h, h->shape[0], -1);                                             // (3,16)
    Tensor *scores = mm(h, reshape(W, 16, -1));                                  // (3,4)
    return sum(cross_entropy(scores, y));
}
GRADIENT(small_network, small_network(in[0], in[1], in[2]),
         .shapes = {{3, 4, 4, 4}, {4, 4, 2, 2}, {3}}, .classes = 4, .eps = 2e-3, .tolerance = 1e-2)

// ---- a tensor that is used twice -------------------------------------------------------------

// The gradient is the sum of what all uses give.
GRADIENT(mm_of_a_matrix_with_itself, mm(in[0], in[0]), .shapes = {{4, 4}})

GRADIENT(tensor_plus_itself, add(in[0], in[0]), .shapes = {{4, 3}})

static Tensor *residual(Tensor *X, Tensor *W) { // around a layer, as in ResNet; then once more
    Tensor *h = relu(X);
    Tensor *a = add(conv2d(h, W, NULL, .padding = 1), h);
    return add(add(a, h), a);
}
GRADIENT(residual, residual(in[0], in[1]), .shapes = {{2, 2, 4, 3}, {2, 2, 3, 3}})

static Tensor *two_branches(Tensor *X) {
    Tensor *h = relu(X);                       // (3,4), used in two ways
    return mm(h, reshape(h, X->shape[1], -1)); // (3,4) (4,3)
}
GRADIENT(two_branches, two_branches(in[0]), .shapes = {{3, 4}})

static Tensor *row_plus_itself(Tensor *X) {
    Tensor *h = relu(X); // (1,6)
    return add_bias(h, reshape(h, -1));
}
GRADIENT(row_plus_itself, row_plus_itself(in[0]), .shapes = {{1, 6}})
GRADIENT(param_row_plus_itself, add_bias(in[0], reshape(in[0], -1)), .shapes = {{1, 6}})

static Tensor *image_by_itself(Tensor *X) {
    Tensor *h = relu(X);
    return conv2d(h, h, NULL, .padding = 1);
}
GRADIENT(image_by_itself, image_by_itself(in[0]), .shapes = {{2, 2, 3, 3}})
GRADIENT(shared_kernel, conv2d(conv2d(in[0], in[1], in[2], .padding = 1), in[1], in[2]),
         .shapes = {{2, 2, 4, 4}, {2, 2, 3, 3}, {2}})

static Tensor *pooled_in_two_ways(Tensor *X) {
    Tensor *h = relu(X);                                 // (2,1,4,4)
    Tensor *a = avg_pool2d(h, .kernel = 2);              // 2x2,
    Tensor *b = avg_pool2d(h, .kernel = 3, .stride = 1); // and so is this
    return mm(reshape(a, 2, -1), reshape(b, -1, 2));
}
GRADIENT(pooled_in_two_ways, pooled_in_two_ways(in[0]), .shapes = {{2, 1, 4, 4}})

static Tensor *relu_of_relu_twice(Tensor *X) {
    Tensor *h = relu(X), *a = relu(h), *b = relu(h);
    return mm(a, b);
}
GRADIENT(relu_of_relu_twice, relu_of_relu_twice(in[0]), .shapes = {{3, 3}})
// clang-format on

// ---- gradients add up until sgd --------------------------------------------------------------

static Tensor *loss_of(Tensor *X, Tensor *W, Tensor *b, Tensor *y) {
    return sum(cross_entropy(linear(relu(X), W, b), y));
}

static void test_two_passes_add_up_and_sgd_zeroes(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = PARAM(device, 5, 4), *W = PARAM(device, 3, 4), *b = PARAM(device, 3);
    Tensor *params[] = {X, W, b}, *y = labels_of(device, 5, 3);
    float *once[3];
    for (int pass = 0; pass < 2; pass++) {
        begin_step(device);
        backward(loss_of(X, W, b, y));
        if (pass == 0)
            for (int i = 0; i < 3; i++) once[i] = tensor_values(params[i]->grad);
    }
    for (int i = 0; i < 3; i++) {
        expect_multiple(params[i]->grad, once[i], 2);
        float *before = tensor_values(params[i]);
        sgd(&params[i], 1, 0.5f, 5);
        for (size_t j = 0; j < numel(params[i]); j++) before[j] -= 0.5f / 5 * 2 * once[i][j];
        expect_multiple(params[i], before, 1);
        expect_multiple(params[i]->grad, once[i], 0);
        free(before);
        free(once[i]);
        tensor_free(params[i]);
    }
    tensor_free(y);
}

// Two minibatches are on one tape, operation by operation. Each backward() takes only its own.
static void check_microbatches(Device *device, int first) {
    Tensor *W = PARAM(device, 2, 1, 3, 3), *b = PARAM(device, 2);
    Tensor *X[2] = {PARAM(device, 2, 1, 5, 5), PARAM(device, 1, 1, 5, 5)}, *loss[2];
    float *alone_W[2], *alone_X[2];
    for (int i = 0; i < 2; i++) { // what each gives by itself
        tensor_fill(W->grad, 0);
        begin_step(device);
        backward(sum(relu(conv2d(X[i], W, b))));
        alone_W[i] = tensor_values(W->grad);
        alone_X[i] = tensor_values(X[i]->grad);
        tensor_fill(X[i]->grad, 0);
    }
    tensor_fill(W->grad, 0);
    begin_step(device);
    Tensor *conv[2], *act[2];
    for (int i = 0; i < 2; i++) conv[i] = conv2d(X[i], W, b);
    for (int i = 0; i < 2; i++) act[i] = relu(conv[i]);
    for (int i = 0; i < 2; i++) loss[i] = sum(act[i]);

    backward(loss[first]);
    expect_multiple(W->grad, alone_W[first], 1);
    expect_multiple(X[first]->grad, alone_X[first], 1);
    expect_multiple(X[1 - first]->grad, alone_X[1 - first], 0);
    backward(loss[1 - first]);
    for (int i = 0; i < 2; i++) expect_multiple(X[i]->grad, alone_X[i], 1);
    for (size_t i = 0; i < numel(W); i++) alone_W[0][i] += alone_W[1][i];
    expect_multiple(W->grad, alone_W[0], 1);

    for (int i = 0; i < 2; i++) free(alone_W[i]), free(alone_X[i]), tensor_free(X[i]);
    tensor_free(W);
    tensor_free(b);
}

static void test_microbatches_on_one_tape(void **state) {
    Device *device = device_under_test(state);
    check_microbatches(device, 0);
    check_microbatches(device, 1);
}

// ---- what is not differentiated --------------------------------------------------------------

static void test_inputs_without_gradient(void **state) {
    Device *device = device_under_test(state);
    Tensor *W = PARAM(device, 2, 1, 2, 2), *b = PARAM(device, 2), *M = PARAM(device, 8, 3);
    Tensor *X = tensor_new(device, 2, 1, 3, 3);
    fill_random(X);
    begin_step(device);
    Tensor *h = relu(X); // nothing behind it requires a gradient
    assert_false(h->requires_grad);
    assert_null(h->grad);
    backward(sum(mm(reshape(conv2d(h, W, b), 2, -1), M)));
    assert_null(X->grad);
    float *grad = tensor_values(M->grad);
    assert_true(rms(grad, numel(M)) > 0);
    free(grad);
    Tensor *tensors[] = {W, b, M, X};
    for (size_t i = 0; i < COUNT(tensors); i++) tensor_free(tensors[i]);
}

// Only one term of a sum is trained. The other, and its gradient, stay as they are.
static void test_add_of_a_constant(void **state) {
    Device *device = device_under_test(state);
    Tensor *W = PARAM(device, 4, 5), *X = tensor_new(device, 4, 5), *dY = random_like(X);
    fill_random(X);
    float *w = tensor_values(W), *x = tensor_values(X), *d = tensor_values(dY);
    for (int first = 0; first < 2; first++) {
        begin_step(device);
        Tensor *Y = first ? add(W, X) : add(X, W);
        double *expected = xcalloc(20, sizeof *expected);
        for (int i = 0; i < 20; i++) expected[i] = (double)w[i] + x[i];
        float *y = tensor_values(Y);
        assert_all_close(y, expected, 20, 2e-7, "sum");
        backward_from(Y, dY);
        expect_multiple(W->grad, d, first + 1);
        expect_multiple(X, x, 1);
        assert_null(X->grad);
        begin_step(device);
        assert_false(add(X, X)->requires_grad);
        free(expected);
        free(y);
    }
    free(w);
    free(x);
    free(d);
    tensor_free(W);
    tensor_free(X);
    tensor_free(dY);
}

static void test_no_grad_records_nothing(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = PARAM(device, 4, 3), *W = PARAM(device, 2, 3), *b = PARAM(device, 2);
    Tensor *y = labels_of(device, 4, 2);
    begin_step(device);
    set_grad_enabled(false);
    Tensor *quiet = loss_of(X, W, b, y);
    size_t quiet_bytes = arena_used_bytes(device);
    set_grad_enabled(true);
    assert_false(quiet->requires_grad);
    assert_null(quiet->grad);
    Tensor *loss = loss_of(X, W, b, y);
    size_t forward_bytes = arena_used_bytes(device);
    assert_int_equal(forward_bytes, 2 * quiet_bytes); // gradients are promised, not there yet
    assert_true(item(loss) == item(quiet));
    backward(loss);
    assert_true(arena_used_bytes(device) > forward_bytes);
    float *with_both = tensor_values(X->grad);
    tensor_fill(X->grad, 0);
    begin_step(device);
    backward(loss_of(X, W, b, y));
    expect_multiple(X->grad, with_both, 1);
    free(with_both);
    Tensor *tensors[] = {X, W, b, y};
    for (size_t i = 0; i < COUNT(tensors); i++) tensor_free(tensors[i]);
}

static void test_reshape_shares_data_and_gradient(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = PARAM(device, 2, 3, 4);
    begin_step(device);
    Tensor *h = relu(X), *view = reshape(h, 4, -1), *view_of_view = reshape(view, 24);
    assert_int_equal(view->shape[1], 6);
    assert_ptr_equal(view->data, h->data);
    assert_ptr_equal(view_of_view->data, h->data);
    assert_ptr_equal(reshape(X, 24)->grad->data, X->grad->data);
    backward(sum(view_of_view));
    float *values = tensor_values(X), *grad = tensor_values(X->grad);
    for (size_t i = 0; i < numel(X); i++) assert_true(grad[i] == (values[i] > 0));
    free(values);
    free(grad);
    tensor_free(X);
}

// A device may get no rows of a small minibatch: its gradients are zero, and it goes on.
static void test_no_rows(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = tensor_new(device, 0, 1, 4, 4), *y = tensor_new(device, 0);
    Tensor *W = PARAM(device, 2, 1, 3, 3), *b = PARAM(device, 2), *M = PARAM(device, 2, 3);
    begin_step(device);
    Tensor *h = avg_pool2d(relu(conv2d(X, W, b)), .kernel = 2);
    h = reshape(h, h->shape[0], -1);
    assert_int_equal(h->shape[1], 2);
    Tensor *loss = sum(cross_entropy(mm(h, M), y));
    backward(loss);
    assert_true(item(loss) == 0);
    Tensor *params[] = {W, b, M};
    for (int i = 0; i < 3; i++) {
        float *grad = tensor_values(params[i]->grad);
        for (size_t j = 0; j < numel(params[i]); j++) assert_true(grad[j] == 0);
        free(grad);
        tensor_free(params[i]);
    }
    tensor_free(X);
    tensor_free(y);
}

// ---- the arena -------------------------------------------------------------------------------

enum { MAX_ADDRESSES = 32 };

// One training step; writes down where its activations and their gradients are.
static int addresses_of_step(Device *device, Tensor *X, Tensor *y, Tensor *const params[],
                             const void *addresses[MAX_ADDRESSES]) {
    begin_step(device);
    Tensor *t[10];
    int n = 0;
    t[n++] = conv2d(X, params[0], params[1]);
    t[n++] = relu(t[0]);
    t[n++] = avg_pool2d(t[1], .kernel = 2);
    t[n++] = reshape(t[2], X->shape[0], -1);
    t[n++] = mm(t[3], params[2]);
    t[n++] = add_bias(t[4], params[3]);
    t[n++] = cross_entropy(t[5], y);
    t[n++] = sum(t[6]);
    for (int i = 0; i < n; i++)
        addresses[2 * i] = t[i]->data, addresses[2 * i + 1] = t[i]->grad->data;
    backward(t[n - 1]);
    sgd(params, 4, 0.1f, X->shape[0]);
    return 2 * n;
}

// The rows tell which sizes of minibatch come one after the other.
static void check_steps(Device *device, int side, const int *rows, int num_steps) {
    int channels = 4, pooled = (side - 2) / 2;
    Tensor *params[] = {PARAM(device, channels, 1, 3, 3), PARAM(device, channels),
                        PARAM(device, channels * pooled * pooled, 3), PARAM(device, 3)};
    const void *first[MAX_ADDRESSES], *now[MAX_ADDRESSES];
    size_t reserved = 0, bytes = 0;
    for (int step = 0; step < num_steps; step++) {
        Tensor *X = tensor_new(device, rows[step], 1, side, side),
               *y = labels_of(device, rows[step], 3);
        fill_random(X);
        int n = addresses_of_step(device, X, y, params, step == 0 ? first : now);
        tensor_free(X);
        tensor_free(y);
        if (step == 0) reserved = arena_reserved_bytes(device), bytes = device_bytes(device);
        assert_true(arena_used_bytes(device) <= arena_reserved_bytes(device));
        assert_int_equal(arena_reserved_bytes(device), reserved);
        assert_int_equal(device_bytes(device), bytes);
        if (step > 0 && rows[step] == rows[0])
            for (int i = 0; i < n; i++) assert_ptr_equal(now[i], first[i]);
    }
    for (int i = 0; i < 4; i++) tensor_free(params[i]);
    autograd_close();
}

static void test_each_step_uses_the_same_memory(void **state) {
    Device *device = device_under_test(state);
    autograd_close();
    check_steps(device, 10, (const int[]){6, 6, 6}, 3);
    check_steps(device, 10, (const int[]){6, 6, 2, 6, 1, 6}, 6); // shorter minibatches in between
}

// Activations of 12 MB and their gradients: the arena needs several blocks, one larger than usual.
static void test_same_memory_of_a_large_step(void **state) {
    Device *device = device_under_test(state);
    autograd_close();
    check_steps(device, 302, (const int[]){9, 9, 9}, 3);
    check_steps(device, 302, (const int[]){14, 14, 3, 14}, 4);
}

// ---- LeNet -----------------------------------------------------------------------------------
//
// The differences are those of a LeNet in plain loops in double, one image at a time. So eps can be
// tiny, and hardly any of the thousands of relus has its kink within it.

// relu(convolution + b), then the mean of each 2x2 window. X (C,side,side) -> (M,pooled,pooled).
static void host_conv_block(const double *X, int C, int side, const double *W, const double *b,
                            int M, int kernel, double *Y) {
    int out = side - kernel + 1, pooled = out / 2;
    memset(Y, 0, sizeof *Y * (size_t)(M * pooled * pooled));
    for (int m = 0; m < M; m++)
        for (int i = 0; i < 2 * pooled; i++)
            for (int j = 0; j < 2 * pooled; j++) {
                double total = b[m];
                for (int c = 0; c < C; c++)
                    for (int p = 0; p < kernel; p++)
                        for (int q = 0; q < kernel; q++)
                            total += W[((m * C + c) * kernel + p) * kernel + q] *
                                     X[(c * side + i + p) * side + j + q];
                Y[(m * pooled + i / 2) * pooled + j / 2] += fmax(total, 0) / 4;
            }
}

// x (n) times W (n,m), plus b
static void host_layer(const double *x, int n, const double *W, const double *b, int m, double *y) {
    for (int j = 0; j < m; j++) {
        y[j] = b[j];
        for (int i = 0; i < n; i++) y[j] += x[i] * W[i * m + j];
    }
}

enum { LENET_IMAGES = 2, PIXELS = 28 * 28 };

static double host_lenet_loss(const double *X, const float *y, double *const p[LENET_PARAMS]) {
    static double h1[20 * 13 * 13], h2[50 * 4 * 4], h3[128], scores[10];
    double loss = 0;
    for (int image = 0; image < LENET_IMAGES; image++) {
        host_conv_block(X + image * PIXELS, 1, 28, p[0], p[1], 20, 3, h1);
        host_conv_block(h1, 20, 13, p[2], p[3], 50, 5, h2);
        host_layer(h2, 800, p[4], p[5], 128, h3);
        for (int i = 0; i < 128; i++) h3[i] = fmax(h3[i], 0);
        host_layer(h3, 128, p[6], p[7], 10, scores);
        double total = 0;
        for (int c = 0; c < 10; c++) total += exp(scores[c]);
        loss += log(total) - scores[(int)y[image]];
    }
    return loss;
}

static double *read_doubles(const Tensor *t) {
    float *values = tensor_values(t);
    double *wide = xmalloc(sizeof *wide * numel(t));
    for (size_t i = 0; i < numel(t); i++) wide[i] = values[i];
    free(values);
    return wide;
}

// LeNet's parameters on the device; not the book's, with which the scores are nearly zero.
static void lenet_params(Device *device, Tensor *params[LENET_PARAMS]) {
    static const float sizes[LENET_PARAMS] = {1, .5f, .2f, .5f, .2f, .5f, .4f, .5f};
    Tensor *start[LENET_PARAMS];
    lenet_init(start, 1);
    for (int i = 0; i < LENET_PARAMS; i++) {
        params[i] = tensor_to(start[i], device);
        float *values = xmalloc(tensor_bytes(params[i]));
        random_floats(values, numel(params[i]), next_seed++);
        for (size_t j = 0; j < numel(params[i]); j++) values[j] *= sizes[i];
        tensor_write(params[i], values);
        attach_grad(params[i]);
        free(values);
        tensor_free(start[i]);
    }
}

static void check_lenet_param(const double *X, const float *y, double *const host_params[],
                              int param, const Tensor *t) {
    float *grad = tensor_values(t->grad);
    double scale = rms(grad, numel(t)), eps = 1e-5;
    for (uint64_t probe = 0; probe < 5; probe++) {
        size_t i = random_bits(next_seed, STREAM_TEST, probe) % numel(t);
        double *p = &host_params[param][i], start = *p;
        *p = start + eps;
        double more = host_lenet_loss(X, y, host_params);
        *p = start - eps;
        double numeric = (more - host_lenet_loss(X, y, host_params)) / (2 * eps);
        *p = start;
        if (!(fabs(numeric - grad[i]) <= 1e-4 * fmax(fabs(numeric), scale)))
            fail_msg("element %zu of the gradient of %s is %.7g, by differences %.7g", i, t->name,
                     grad[i], numeric);
    }
    next_seed++;
    free(grad);
}

static void test_gradient_of_lenet(void **state) {
    Device *device = device_under_test(state);
    Tensor *params[LENET_PARAMS], *X = tensor_new(device, LENET_IMAGES, 1, 28, 28);
    Tensor *y = labels_of(device, LENET_IMAGES, 10);
    fill_random(X);
    lenet_params(device, params);
    begin_step(device);
    Tensor *loss = sum(cross_entropy(lenet(X, params), y));
    backward(loss);

    double *host_X = read_doubles(X), *host_params[LENET_PARAMS], value = item(loss);
    float *host_y = tensor_values(y);
    for (int i = 0; i < LENET_PARAMS; i++) host_params[i] = read_doubles(params[i]);
    assert_true(fabs(value - host_lenet_loss(host_X, host_y, host_params)) <= 1e-5 * value);
    for (int i = 0; i < LENET_PARAMS; i++)
        check_lenet_param(host_X, host_y, host_params, i, params[i]);
    for (int i = 0; i < LENET_PARAMS; i++) free(host_params[i]), tensor_free(params[i]);
    free(host_X);
    free(host_y);
    tensor_free(X);
    tensor_free(y);
}

// ---- what ends the program -------------------------------------------------------------------

// Each runs in a child process, which opens devices of its own.
static Tensor *blank(int device, int ndim, const int *shape) {
    return tensor_of_shape(cpu_device(device), ndim, shape);
}
#define T(device, ...)                                                                             \
    blank((device), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__})

static Tensor *named(const char *name, Tensor *t) {
    t->name = name;
    return t;
}

static Tensor *trained(Tensor *t) {
    attach_grad(t);
    return t;
}

#define DYING(NAME, ...)                                                                           \
    static void die_##NAME(void *unused) {                                                         \
        (void)unused;                                                                              \
        __VA_ARGS__;                                                                               \
    }
// clang-format off
DYING(mm, mm(T(0, 2, 3), named("W3", T(0, 4, 5))))
DYING(mm_ndim, mm(T(0, 2, 3, 1, 1), T(0, 3, 5)))
DYING(linear, linear(T(0, 2, 3), T(0, 3, 5), NULL))
DYING(linear_bias, linear(T(0, 2, 3), T(0, 5, 3), T(0, 4)))
DYING(add_bias, add_bias(T(0, 2, 3), T(0, 4)))
DYING(add, add(T(0, 2, 3), T(0, 3, 2)))
DYING(add_ndim, add(T(0, 2, 3), T(0, 2, 3, 1)))
DYING(conv2d, conv2d(T(0, 1, 2, 5, 5), T(0, 3, 4, 3, 3), NULL))
DYING(conv2d_bias, conv2d(T(0, 1, 2, 5, 5), T(0, 3, 2, 3, 3), T(0, 4)))
DYING(conv2d_small, conv2d(T(0, 1, 1, 2, 2), T(0, 1, 1, 3, 3), NULL))
DYING(cross_entropy, cross_entropy(T(0, 2, 3), T(0, 3)))
DYING(tensor_copy, tensor_copy(T(0, 2, 3), T(0, 3, 2)))
DYING(upstream, backward_from(relu(trained(T(0, 2, 3))), T(0, 3, 2)))
// clang-format on

static void test_wrong_shapes(void **state) {
    (void)state;
#define NO_MATCH(operation, wrong, right)                                                          \
    operation ": " wrong " does not go with tensor of shape " right
    expect_death(1, NO_MATCH("mm", "W3 of shape (4, 5)", "(2, 3)"), die_mm, NULL);
    expect_death(1, NO_MATCH("mm", "tensor of shape (3, 5)", "(2, 3, 1, 1)"), die_mm_ndim, NULL);
    expect_death(1, NO_MATCH("linear", "tensor of shape (3, 5)", "(2, 3)"), die_linear, NULL);
    expect_death(1, NO_MATCH("add_bias", "tensor of shape (4,)", "(2, 5)"), die_linear_bias, NULL);
    expect_death(1, NO_MATCH("add_bias", "tensor of shape (4,)", "(2, 3)"), die_add_bias, NULL);
    expect_death(1, NO_MATCH("add", "tensor of shape (3, 2)", "(2, 3)"), die_add, NULL);
    expect_death(1, NO_MATCH("add", "tensor of shape (2, 3, 1)", "(2, 3)"), die_add_ndim, NULL);
    expect_death(1, NO_MATCH("conv2d", "tensor of shape (3, 4, 3, 3)", "(1, 2, 5, 5)"), die_conv2d,
                 NULL);
    expect_death(1, NO_MATCH("conv2d", "tensor of shape (4,)", "(3, 2, 3, 3)"), die_conv2d_bias,
                 NULL);
    expect_death(1, NO_MATCH("conv2d", "tensor of shape (1, 1, 3, 3)", "(1, 1, 2, 2)"),
                 die_conv2d_small, NULL);
    expect_death(1, NO_MATCH("cross_entropy", "tensor of shape (3,)", "(2, 3)"), die_cross_entropy,
                 NULL);
    expect_death(1, "cannot copy a tensor (3, 2) to a tensor (2, 3)", die_tensor_copy, NULL);
    expect_death(1, "cannot copy a tensor (3, 2) to a tensor (2, 3)", die_upstream, NULL);
}

DYING(devices_mm, mm(T(0, 2, 3), named("W3", T(1, 3, 5))))
DYING(devices_linear, linear(T(1, 2, 3), T(0, 5, 3), NULL))
DYING(devices_bias, add_bias(T(0, 2, 3), T(2, 3)))
DYING(devices_add, add(T(0, 2, 3), T(1, 2, 3)))
DYING(devices_conv_W, conv2d(T(0, 1, 1, 5, 5), T(1, 1, 1, 3, 3), NULL))
DYING(devices_conv_b, conv2d(T(0, 1, 1, 5, 5), T(0, 1, 1, 3, 3), T(1, 1)))
DYING(devices_loss, cross_entropy(T(0, 2, 3), T(1, 2)))
DYING(devices_count, count_correct(T(0, 1), T(0, 2, 3), T(1, 2)))
DYING(devices_count_to, count_correct(T(1, 1), T(0, 2, 3), T(0, 2)))
DYING(devices_host, mm(T(0, 2, 3), tensor_new(host(), 3, 5)))
DYING(on_host, relu(tensor_new(host(), 3, 5)))

static void test_tensors_on_different_devices(void **state) {
    (void)state;
    expect_death(1, "mm: tensor (2, 3) is on cpu:0, but W3 (3, 5) is on cpu:1", die_devices_mm,
                 NULL);
    expect_death(1, "linear: tensor (2, 3) is on cpu:1, but tensor (5, 3) is on cpu:0",
                 die_devices_linear, NULL);
    expect_death(1, "add_bias: tensor (2, 3) is on cpu:0, but tensor (3,) is on cpu:2",
                 die_devices_bias, NULL);
    expect_death(1, "add: tensor (2, 3) is on cpu:0, but tensor (2, 3) is on cpu:1",
                 die_devices_add, NULL);
    expect_death(1, "conv2d: tensor (1, 1, 5, 5) is on cpu:0, but tensor (1, 1, 3, 3) is on cpu:1",
                 die_devices_conv_W, NULL);
    expect_death(1, "conv2d: tensor (1, 1, 5, 5) is on cpu:0, but tensor (1,) is on cpu:1",
                 die_devices_conv_b, NULL);
    expect_death(1, "cross_entropy: tensor (2, 3) is on cpu:0, but tensor (2,) is on cpu:1",
                 die_devices_loss, NULL);
    expect_death(1, "count_correct: tensor (2, 3) is on cpu:0, but tensor (2,) is on cpu:1",
                 die_devices_count, NULL);
    expect_death(1, "count_correct: tensor (2, 3) is on cpu:0, but tensor (1,) is on cpu:1",
                 die_devices_count_to, NULL);
    expect_death(1, "mm: tensor (2, 3) is on cpu:0, but tensor (3, 5) is on host", die_devices_host,
                 NULL);
    expect_death(1, "the host has no queue", die_on_host, NULL);
}

DYING(not_one, backward(relu(trained(T(0, 2, 3)))))
DYING(no_gradient, backward(sum(T(0, 2, 3))))
DYING(no_gradient_from, backward_from(relu(T(0, 2, 3)), T(0, 2, 3)))
DYING(not_recorded, set_grad_enabled(false), backward(sum(trained(T(0, 2, 3)))))
DYING(sgd, Tensor *p = T(0, 2); sgd(&p, 1, 0.1f, 1))
DYING(reshape, reshape(T(0, 2, 3), 4, 2))
DYING(reshape_remainder, reshape(T(0, 2, 3), 4, -1))
DYING(reshape_twice, reshape(T(0, 2, 3), -1, -1))
DYING(pool_ndim, avg_pool2d(T(0, 2, 3), .kernel = 2))
DYING(pool_kernel, avg_pool2d(T(0, 1, 1, 4, 4), .stride = 2))
DYING(pool_small, avg_pool2d(T(0, 1, 1, 4, 1), .kernel = 2))
DYING(half_trained, conv2d(T(0, 1, 1, 4, 4), trained(T(0, 1, 1, 3, 3)), T(0, 1)))
DYING(item, item(T(0, 2)))
DYING(second_loss, Tensor *h = relu(trained(T(0, 2, 3))); backward(sum(h)); backward(sum(h)))
DYING(loss_again, Tensor *loss = sum(trained(T(0, 3))); backward(loss); backward(loss))
DYING(upstream_and_loss, Tensor *h = relu(trained(T(0, 2))); backward_from(h, T(0, 2));
      backward(sum(h)))
DYING(in_place_leaf, relu_(trained(T(0, 2, 3))))
DYING(in_place_input, Tensor *h = add_bias(trained(T(0, 2, 3)), T(0, 3)); mm(h, T(0, 3, 2));
      relu_(h))
DYING(in_place_output, Tensor *h = relu(trained(T(0, 2, 3))); add_(h, T(0, 2, 3)))
DYING(in_place_factor, Tensor *X = add(T(0, 2, 3), T(0, 2, 3)); mm(X, trained(T(0, 3, 2)));
      relu_(X))
DYING(in_place_unrecorded, Tensor *h = add_bias(trained(T(0, 2, 3)), T(0, 3)); mm(h, T(0, 3, 2));
      set_grad_enabled(false); relu_(h))
DYING(in_place_own, add_(T(0, 2, 3), trained(T(0, 2, 3))))
DYING(in_place_view, Tensor *h = relu(trained(T(0, 2, 3))); add_(reshape(h, 3, 2), T(0, 3, 2)))
DYING(padding, conv2d(T(0, 1, 1, 4, 4), T(0, 1, 1, 3, 3), NULL, .padding = -1))
DYING(stride, conv2d(T(0, 1, 1, 4, 4), T(0, 1, 1, 3, 3), NULL, .stride = -1))
DYING(pool_stride, avg_pool2d(T(0, 1, 1, 4, 4), .kernel = 2, .stride = -2))
DYING(no_batch, Tensor *p = trained(T(0, 2)); sgd(&p, 1, 0.1f, 0))
DYING(count_rows, count_correct(T(0, 1), T(0, 4, 3), T(0, 2)))
DYING(count_size, count_correct(T(0, 2), T(0, 4, 3), T(0, 4)))

static void test_wrong_use(void **state) {
    (void)state;
    expect_death(1, "sum() the losses first", die_not_one, NULL);
    expect_death(1, "cannot be overwritten", die_in_place_leaf, NULL);
    expect_death(1, "cannot be overwritten", die_in_place_input, NULL);
    expect_death(1, "cannot be overwritten", die_in_place_output, NULL);
    expect_death(1, "cannot be overwritten", die_in_place_view, NULL);
    expect_death(1, "values are needed for gradients", die_in_place_factor, NULL);
    expect_death(1, "values are needed for gradients", die_in_place_unrecorded, NULL);
    expect_death(1, "not the output of an operation", die_in_place_own, NULL);
    expect_death(1, "requires a gradient", die_no_gradient, NULL);
    expect_death(1, "requires a gradient", die_no_gradient_from, NULL);
    expect_death(1, "requires a gradient", die_not_recorded, NULL);
    expect_death(1, "attach_grad()", die_sgd, NULL);
    expect_death(1, "as many elements", die_reshape, NULL);
    expect_death(1, "as many elements", die_reshape_remainder, NULL);
    expect_death(1, "only one size may be -1", die_reshape_twice, NULL);
    expect_death(1, "X is (N,C,H,W)", die_pool_ndim, NULL);
    expect_death(1, ".kernel = 2", die_pool_kernel, NULL);
    expect_death(1, "smaller than the window", die_pool_small, NULL);
    expect_death(1, "trained together", die_half_trained, NULL);
    expect_death(1, "one element", die_item, NULL);
    expect_death(1, "add up the losses", die_second_loss, NULL);
    expect_death(1, "add up the losses", die_loss_again, NULL);
    expect_death(1, "add up the losses", die_upstream_and_loss, NULL);
    expect_death(1, "paddings are not negative", die_padding, NULL);
    expect_death(1, "strides are positive", die_stride, NULL);
    expect_death(1, "strides are positive", die_pool_stride, NULL);
    expect_death(1, "at least one row", die_no_batch, NULL);
    expect_death(1, "count_correct: ", die_count_rows, NULL);
    expect_death(1, "one number", die_count_size, NULL);
}

// fork() copies no threads, so no device may be open then; the child's are CPU devices, because a
// GPU cannot be used on both sides of a fork.
static int close_devices(void **state) {
    (void)state;
    devices_close();
    devices_init(BACKEND_CPU, 1);
    return 0;
}

static int devices_as_the_machine_has(void **state) {
    (void)state;
    devices_close();
    return 0;
}

#define DEATH_TEST(test)                                                                           \
    cmocka_unit_test_setup_teardown(test, close_devices, devices_as_the_machine_has)

// ---- main ------------------------------------------------------------------------------------

// ---- the hook of final gradients
// ------------------------------------------------------------------

typedef struct Calls {
    const Tensor *order[8];
    float values[8]; // the first element of the gradient, as it was at the call
    int n;
} Calls;

static void note_call(Tensor *t, void *context) {
    Calls *calls = context;
    float values[4];
    tensor_read(t->grad, values);
    calls->values[calls->n] = values[0];
    calls->order[calls->n++] = t;
}

static Tensor *hooked(Device *device, Calls *calls) {
    Tensor *t = tensor_new(device, 2, 2);
    tensor_fill(t, 1);
    attach_grad(t);
    when_grad_is_final(t, note_call, calls);
    return t;
}

// sum(X A B A) of matrices of ones: A is read first and last, so its gradient, 8 + 8, is final only
// when the first product has gone back; B's, 8, is final before.
static void test_hook_of_final_gradients(void **state) {
    Device *device = device_under_test(state);
    Calls calls = {.n = 0};
    Tensor *X = tensor_new(device, 2, 2), *A = hooked(device, &calls), *B = hooked(device, &calls),
           *unused = hooked(device, &calls);
    tensor_fill(X, 1);
    begin_step(device);
    backward(sum(mm(mm(mm(X, A), B), A)));
    assert_int_equal(calls.n, 2);
    assert_ptr_equal(calls.order[0], B);
    assert_ptr_equal(calls.order[1], A);
    assert_true(calls.values[0] == 8);
    assert_true(calls.values[1] == 16);

    // Two losses on one tape: after the first backward() the second one has yet to add its part.
    begin_step(device);
    Tensor *first = sum(mm(X, A)), *second = sum(mm(mm(X, A), B));
    calls.n = 0;
    backward(first);
    assert_int_equal(calls.n, 0);
    backward(second);
    assert_int_equal(calls.n, 2);
    assert_ptr_equal(calls.order[0], B);
    assert_ptr_equal(calls.order[1], A);

    // A reshaped parameter is the parameter; no hook, no call.
    begin_step(device);
    calls.n = 0;
    when_grad_is_final(B, NULL, NULL);
    backward(sum(mm(mm(X, reshape(A, 2, 2)), B)));
    assert_int_equal(calls.n, 1);
    assert_ptr_equal(calls.order[0], A);
    Tensor *all[] = {X, A, B, unused};
    for (int i = 0; i < 4; i++) tensor_free(all[i]);
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        // First, while no GPU has been opened: what holds one cannot be forked.
        DEATH_TEST(test_wrong_shapes),
        DEATH_TEST(test_tensors_on_different_devices),
        DEATH_TEST(test_wrong_use),
        ON_BOTH(test_gradient_of_conv2d),
        ON_BOTH(test_gradient_of_conv2d_with_stride_and_padding),
        ON_BOTH(test_gradient_of_conv2d_that_is_not_square),
        ON_BOTH(test_gradient_of_conv2d_1x1_without_bias),
        ON_BOTH(test_gradient_of_conv2d_relu_avg_pool2d),
        ON_BOTH(test_gradient_of_avg_pool2d),
        ON_BOTH(test_gradient_of_avg_pool2d_that_leaves_a_rim),
        ON_BOTH(test_gradient_of_avg_pool2d_that_overlaps),
        ON_BOTH(test_gradient_of_relu),
        ON_BOTH(test_gradient_of_add),
        ON_BOTH(test_gradient_of_mm),
        ON_BOTH(test_gradient_of_add_bias),
        ON_BOTH(test_gradient_of_linear),
        ON_BOTH(test_gradient_of_linear_without_bias),
        ON_BOTH(test_gradient_of_reshape),
        ON_BOTH(test_gradient_of_cross_entropy),
        ON_BOTH(test_gradient_of_sum),
        ON_BOTH(test_gradient_of_relu_in_place),
        ON_BOTH(test_gradient_of_add_in_place),
        ON_BOTH(test_gradient_of_residual_in_place),
        ON_BOTH(test_options_of_conv2d_and_avg_pool2d),
        ON_BOTH(test_gradient_of_small_network),
        ON_BOTH(test_gradient_of_mm_of_a_matrix_with_itself),
        ON_BOTH(test_gradient_of_tensor_plus_itself),
        ON_BOTH(test_gradient_of_residual),
        ON_BOTH(test_gradient_of_two_branches),
        ON_BOTH(test_gradient_of_row_plus_itself),
        ON_BOTH(test_gradient_of_param_row_plus_itself),
        ON_BOTH(test_gradient_of_image_by_itself),
        ON_BOTH(test_gradient_of_shared_kernel),
        ON_BOTH(test_gradient_of_pooled_in_two_ways),
        ON_BOTH(test_gradient_of_relu_of_relu_twice),
        ON_BOTH(test_two_passes_add_up_and_sgd_zeroes),
        ON_BOTH(test_microbatches_on_one_tape),
        ON_BOTH(test_inputs_without_gradient),
        ON_BOTH(test_add_of_a_constant),
        ON_BOTH(test_no_grad_records_nothing),
        ON_BOTH(test_reshape_shares_data_and_gradient),
        ON_BOTH(test_hook_of_final_gradients),
        ON_BOTH(test_no_rows),
        ON_BOTH(test_each_step_uses_the_same_memory),
        ON_BOTH_UNLESS_SIMULATED(test_same_memory_of_a_large_step),
        ON_BOTH(test_gradient_of_lenet),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    devices_close();
    return failed;
}
