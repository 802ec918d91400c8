// test_reference.c: our operations against PyTorch's figures.
//
// The figures are in tests/reference/*.safetensors; make_reference.py there says what each holds.
// They were computed in float64 and are good to float32's last digit, so what is compared here is
// our own rounding. To be run from the repository root. Each operation is checked on try_gpu(0),
// and on a CPU device too where that is a GPU.
//
// How close is close enough: |ours - reference| <= tolerance * max(|reference|, rms of the
// reference tensor). The second term is there for elements that happen to be near zero, and it
// carries the length of the sums: a sum of K products of normal numbers has an rms of sqrt(K), and
// its rounding error grows the same way. The comparison is written so that a NaN fails it.
#include "test.h"

#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/tensor/functional.h"
#include "common/data/safetensors.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"

#define FOLDER "tests/reference/"

// Units of rounding: float32 has 24 bits, 2^-24 = 6e-8.
static const double EXACT = 0;       // a choice between inputs: relu
static const double ROUNDED = 3e-7;  // a few operations per element
static const double SUMMED = 1e-5;   // long sums, and exp and log
static const double WINOGRAD = 5e-5; // the same by Winograd's method: kernels/cpu/winograd.h
static const double TRAINED = 1e-4;  // a loss after up to 100 updates

static SafetensorsFile ops, start, losses;
static Device *devices[2];
static int num_devices;

// ---- comparing -------------------------------------------------------------------------------

static double rms(const SafetensorsEntry *expected) {
    double squares = 0;
    for (size_t i = 0; i < expected->count; i++)
        squares += (double)expected->values[i] * expected->values[i];
    return sqrt(squares / (double)(expected->count ? expected->count : 1));
}

// `scale` is the size that a near-zero element is measured by.
static void check_value(const char *what, size_t i, double ours, double expected, double tolerance,
                        double scale) {
    double allowed = tolerance * fmax(fabs(expected), scale);
    if (!(fabs(ours - expected) <= allowed))
        fail_msg("%s[%zu] is %.9g, PyTorch has %.9g (allowed difference %.1e)", what, i, ours,
                 expected, allowed);
}

static void check_tensor(const Tensor *t, const SafetensorsEntry *expected, double tolerance) {
    assert_int_equal(t->ndim, expected->ndim);
    for (int i = 0; i < t->ndim; i++) assert_int_equal(t->shape[i], expected->shape[i]);
    char *what = xprintf("%s: %s", device_name(t->device), expected->name);
    double scale = rms(expected);
    float *ours = tensor_values(t);
    for (size_t i = 0; i < expected->count; i++)
        check_value(what, i, ours[i], expected->values[i], tolerance, scale);
    free(ours);
    free(what);
}

// ---- one case of one operation ---------------------------------------------------------------

// Inputs are parameters in one run, whose gradients are added to what is there (zero), and
// activations in another, whose first gradient overwrites whatever the arena held.
typedef struct Case {
    const char *operation;
    int number;
    Device *device;
    bool activations;
} Case;

// NULL when this case has no such part.
static const SafetensorsEntry *part(const Case *c, const char *name) {
    char *key = xprintf("%s.%d.%s", c->operation, c->number, name);
    const SafetensorsEntry *entry = safetensors_find(&ops, key);
    free(key);
    return entry;
}

static const SafetensorsEntry *needed(const SafetensorsEntry *entry) {
    if (!entry) fail_msg("a reference figure is missing: run make_reference.py again");
    return entry;
}

static Tensor *tensor_from(Device *device, const SafetensorsEntry *entry, bool with_grad) {
    Tensor *t = tensor_of_shape(device, entry->ndim, entry->shape);
    tensor_write(t, entry->values);
    if (with_grad) attach_grad(t);
    return t;
}

static Tensor *input_from(const Case *c, const SafetensorsEntry *entry) {
    if (!c->activations) return tensor_from(c->device, entry, true);
    Tensor *t = arena_tensor(c->device, entry->ndim, entry->shape, true);
    tensor_write(t, entry->values);
    tensor_fill(t->grad, NAN);
    return t;
}

static Tensor *input(const Case *c, const char *name) {
    return input_from(c, needed(part(c, name)));
}

static Tensor *input_or_null(const Case *c, const char *name) {
    return part(c, name) ? input(c, name) : NULL;
}

static int option(const Case *c, int i) { return (int)needed(part(c, "options"))->values[i]; }

// Checks Y, goes backward from the case's dY and leaves the gradients in the inputs.
static void check_output_and_go_backward(const Case *c, Tensor *Y, double tolerance) {
    const SafetensorsEntry *expected = needed(part(c, "Y"));
    check_tensor(Y, expected, tolerance);
    const SafetensorsEntry *upstream = part(c, "dY");
    Tensor *dY = tensor_from(c->device, upstream ? upstream : expected, false);
    backward_from(Y, dY);
    synchronize(c->device);
    tensor_free(dY);
}

// Checks the gradient of an input, which is not needed any more.
static void check_grad(const Case *c, const char *name, Tensor *t, double tolerance) {
    if (!t) return;
    char *key = xprintf("d%s", name);
    check_tensor(t->grad, needed(part(c, key)), tolerance);
    free(key);
    if (!c->activations) tensor_free(t);
}

// Runs a check on all cases of an operation, on all devices, with both kinds of inputs.
static void for_each_case(const char *operation, void (*check)(const Case *c)) {
    for (int run = 0; run < 2 * num_devices; run++) {
        Case c = {.operation = operation, .device = devices[run / 2], .activations = run % 2};
        for (; part(&c, "Y"); c.number++) {
            begin_step(c.device);
            check(&c);
        }
        assert_true(c.number > 0); // a file without cases must not pass
    }
}

// ---- the operations --------------------------------------------------------------------------

static void check_conv2d(const Case *c) {
    Tensor *X = input(c, "X"), *W = input(c, "W"), *b = input_or_null(c, "b");
    Tensor *Y = conv2d(X, W, b, .stride_hw = {option(c, 0), option(c, 1)},
                       .padding_hw = {option(c, 2), option(c, 3)});
    check_output_and_go_backward(c, Y, SUMMED);
    check_grad(c, "X", X, SUMMED);
    check_grad(c, "W", W, SUMMED);
    check_grad(c, "b", b, SUMMED);
}

// LeNet's two convolutions take their weights from the start, to keep the file small.
static void check_lenet_conv(const Case *c) {
    const SafetensorsEntry *weights = safetensors_find(&start, c->number == 0 ? "W1" : "W2");
    Tensor *X = input(c, "X"), *b = input(c, "b");
    Tensor *W = input_from(c, needed(weights));
    check_output_and_go_backward(c, conv2d(X, W, b), WINOGRAD);
    check_grad(c, "X", X, WINOGRAD);
    check_grad(c, "W", W, WINOGRAD);
    check_grad(c, "b", b, SUMMED);
}

static void check_avg_pool2d(const Case *c) {
    Tensor *X = input(c, "X");
    Tensor *Y = avg_pool2d(X, .kernel_hw = {option(c, 0), option(c, 1)},
                           .stride_hw = {option(c, 2), option(c, 3)});
    check_output_and_go_backward(c, Y, ROUNDED);
    check_grad(c, "X", X, ROUNDED);
}

static void check_relu(const Case *c) {
    Tensor *X = input(c, "X");
    check_output_and_go_backward(c, relu(X), EXACT);
    check_grad(c, "X", X, EXACT);
}

static void check_mm(const Case *c) {
    Tensor *A = input(c, "A"), *B = input(c, "B");
    check_output_and_go_backward(c, mm(A, B), SUMMED);
    check_grad(c, "A", A, SUMMED);
    check_grad(c, "B", B, SUMMED);
}

static void check_add_bias(const Case *c) {
    Tensor *X = input(c, "X"), *b = input(c, "b");
    check_output_and_go_backward(c, add_bias(X, b), ROUNDED);
    check_grad(c, "X", X, EXACT);
    check_grad(c, "b", b, SUMMED);
}

static void check_linear(const Case *c) {
    Tensor *X = input(c, "X"), *W = input(c, "W"), *b = input_or_null(c, "b");
    check_output_and_go_backward(c, linear(X, W, b), SUMMED);
    check_grad(c, "X", X, SUMMED);
    check_grad(c, "W", W, SUMMED);
    check_grad(c, "b", b, SUMMED);
}

static void check_cross_entropy(const Case *c) {
    Tensor *X = input(c, "X"), *y = tensor_from(c->device, needed(part(c, "y")), false);
    check_output_and_go_backward(c, cross_entropy(X, y), SUMMED);
    check_grad(c, "X", X, SUMMED);
    tensor_free(y);
}

static void check_sum(const Case *c) {
    Tensor *X = input(c, "X");
    check_output_and_go_backward(c, sum(X), SUMMED);
    check_grad(c, "X", X, EXACT);
}

static void check_sgd(const Case *c) {
    Tensor *param = tensor_from(c->device, needed(part(c, "param")), true);
    tensor_write(param->grad, needed(part(c, "grad"))->values);
    sgd(&param, 1, needed(part(c, "options"))->values[0], option(c, 1));
    check_tensor(param, needed(part(c, "Y")), ROUNDED);
    float *grad = tensor_values(param->grad);
    for (size_t i = 0; i < numel(param); i++) assert_true(grad[i] == 0);
    free(grad);
    tensor_free(param);
}

#define TEST_OF(operation)                                                                         \
    static void test_##operation(void **state) {                                                   \
        (void)state;                                                                               \
        for_each_case(#operation, check_##operation);                                              \
    }
TEST_OF(conv2d)
TEST_OF(lenet_conv)
TEST_OF(avg_pool2d)
TEST_OF(relu)
TEST_OF(mm)
TEST_OF(add_bias)
TEST_OF(linear)
TEST_OF(cross_entropy)
TEST_OF(sum)
TEST_OF(sgd)
#undef TEST_OF

// ---- LeNet: the first step, and 100 of them --------------------------------------------------

static const char *const param_names[LENET_PARAMS] = {"W1", "b1", "W2", "b2",
                                                      "W3", "b3", "W4", "b4"};

static void params_at_start(Device *device, Tensor *params[LENET_PARAMS]) {
    for (int i = 0; i < LENET_PARAMS; i++)
        params[i] = tensor_from(device, needed(safetensors_find(&start, param_names[i])), true);
}

static void free_all(Tensor *params[LENET_PARAMS]) {
    for (int i = 0; i < LENET_PARAMS; i++) tensor_free(params[i]);
}

static const SafetensorsEntry *step_part(const char *param, const char *suffix) {
    char *key = xprintf("step.d%s%s", param, suffix);
    const SafetensorsEntry *entry = safetensors_find(&losses, key);
    free(key);
    return entry;
}

// One gradient: its sum, its norm, and all of it or (the large ones) 200 elements.
static void check_step_grad(const Tensor *param, const char *name) {
    if (step_part(name, "")) check_tensor(param->grad, step_part(name, ""), SUMMED);
    float *grad = tensor_values(param->grad);
    double total = 0, squares = 0;
    for (size_t i = 0; i < numel(param); i++) {
        total += grad[i];
        squares += (double)grad[i] * grad[i];
    }
    double norm = needed(step_part(name, ".norm"))->values[0];
    check_value(name, 0, sqrt(squares), norm, SUMMED, 0);
    // The sum may cancel, so it is measured by what its parts are as a whole.
    check_value(name, 0, total, needed(step_part(name, ".sum"))->values[0], SUMMED, norm);

    const SafetensorsEntry *index = step_part(name, ".index"), *value = step_part(name, ".value");
    assert_true(index || step_part(name, ""));
    size_t picked = index ? index->count : 0;
    for (size_t i = 0; i < picked; i++) {
        size_t place = (size_t)index->values[i];
        assert_true(place < numel(param));
        check_value(name, place, grad[place], value->values[i], SUMMED, rms(value));
    }
    free(grad);
}

// A minibatch iterator over the first images of the training set, in the order of the file.
static Dataset *images;
static DataIter *minibatches(int count, int batch_size) {
    images = fashion_mnist_open(NULL, true, count);
    DataIter *iter = data_iter_new(images, batch_size, false, 0);
    data_iter_start(iter, 0);
    return iter;
}

static void minibatches_free(DataIter *iter) {
    data_iter_free(iter);
    dataset_free(images);
}

typedef Tensor *Lenet(Tensor *X, Tensor *const params[]);

static void check_lenet_step(Lenet *net, Device *device) {
    Tensor *host_X, *host_y, *params[LENET_PARAMS];
    DataIter *iter = minibatches(32, 32);
    params_at_start(device, params);
    assert_true(data_iter_next(iter, &host_X, &host_y));
    Tensor *X = tensor_to(host_X, device), *y = tensor_to(host_y, device);

    begin_step(device);
    Tensor *loss = sum(cross_entropy(net(X, params), y));
    backward(loss);
    check_tensor(loss, needed(safetensors_find(&losses, "step.loss")), SUMMED);
    for (int i = 0; i < LENET_PARAMS; i++) check_step_grad(params[i], param_names[i]);
    tensor_free(X);
    tensor_free(y);
    free_all(params);
    minibatches_free(iter);
}

static void test_lenet_step(void **state) {
    (void)state;
    for (int d = 0; d < num_devices; d++) {
        check_lenet_step(lenet_by_the_book, devices[d]);
        check_lenet_step(lenet, devices[d]);
    }
}

// The same start and the same minibatches must give PyTorch's losses, all along the way.
static void test_lenet_losses(void **state) {
    (void)state;
    const SafetensorsEntry *expected = needed(safetensors_find(&losses, "losses"));
    float lr = needed(safetensors_find(&losses, "lr"))->values[0];
    int batches = (int)expected->count, batch_size = 256;
    for (int d = 0; d < num_devices; d++) {
        Tensor *X, *y, *loss, *device_params[1][LENET_PARAMS];
        DataIter *iter = minibatches(batches * batch_size, batch_size);
        params_at_start(devices[d], device_params[0]);
        double worst = 0;
        for (int i = 0; i < batches; i++) {
            assert_true(data_iter_next(iter, &X, &y));
            train_batch(X, y, device_params, &devices[d], 1, lr, &loss);
            double ours = item(loss) / batch_size, theirs = expected->values[i];
            check_value("mean loss of minibatch", (size_t)i, ours, theirs, TRAINED, 0);
            worst = fmax(worst, fabs(ours / theirs - 1));
        }
        print_message("%s: %d losses, largest relative difference %.1e\n", device_name(devices[d]),
                      batches, worst);
        free_all(device_params[0]);
        minibatches_free(iter);
    }
}

// ---- main ------------------------------------------------------------------------------------

static int setup(void **state) {
    (void)state;
    ops = safetensors_open(FOLDER "ops.safetensors");
    start = safetensors_open(FOLDER "lenet.safetensors");
    losses = safetensors_open(FOLDER "lenet_losses.safetensors");
    devices[num_devices++] = try_gpu(0);
    if (cpu_device(0) != devices[0]) devices[num_devices++] = cpu_device(0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    safetensors_close(&ops);
    safetensors_close(&start);
    safetensors_close(&losses);
    devices_close();
    return 0;
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d),     cmocka_unit_test(test_lenet_conv),
        cmocka_unit_test(test_avg_pool2d), cmocka_unit_test(test_relu),
        cmocka_unit_test(test_mm),         cmocka_unit_test(test_add_bias),
        cmocka_unit_test(test_linear),     cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_sum),        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_lenet_step), UNLESS_SIMULATED(test_lenet_losses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
