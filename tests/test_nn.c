// test_nn.c: batch normalisation on one device and on several together, and modules: their shapes,
// names, copies on devices, and what they refuse. The numbers of a whole network are compared with
// PyTorch's in test_resnet18.c.
#include "common/base/error.h"
#include "common/tensor/nn.h"
#include "common/tensor/random.h"
#include "common/data/network_file.h"
#include "common/data/safetensors.h"
#include "dies.h"

static Tensor *random_tensor(Device *device, uint64_t seed, int ndim, const int *shape) {
    Tensor *t = tensor_of_shape(device, ndim, shape);
    float *values = xmalloc(tensor_bytes(t) + 1);
    random_floats(values, numel(t), seed);
    tensor_write(t, values);
    free(values);
    return t;
}

static void assert_same_values(const Tensor *a, const Tensor *b, double tolerance,
                               const char *what) {
    assert_true(same_shape(a, b));
    float *x = tensor_values(a), *y = tensor_values(b);
    for (size_t i = 0; i < numel(a); i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= tolerance * fmax(1, fabs((double)y[i]))))
            fail_msg("%s: element %zu is %.9g, expected %.9g", what, i, x[i], y[i]);
    free(x);
    free(y);
}

// ---- batch norm: k shards together are one minibatch ------------------------------------------

enum { C = 3, H = 2, W = 3 };
static const BatchNormOptions TRAINING = {.training = true, .momentum = 0.1f, .eps = 1e-5f};

// A layer on a device, the same on each.
static BatchNormTensors layer_on(Device *device) {
    BatchNormTensors layer = {
        random_tensor(device, 1, 1, (int[]){C}), random_tensor(device, 2, 1, (int[]){C}),
        random_tensor(device, 3, 1, (int[]){C}), random_tensor(device, 4, 1, (int[]){C})};
    float *variances = tensor_values(layer.running_var);
    for (int c = 0; c < C; c++) variances[c] = 1.5f + variances[c];
    tensor_write(layer.running_var, variances);
    free(variances);
    attach_grad(layer.weight);
    attach_grad(layer.bias);
    return layer;
}

static void layer_free(BatchNormTensors layer) {
    tensor_free(layer.weight);
    tensor_free(layer.bias);
    tensor_free(layer.running_mean);
    tensor_free(layer.running_var);
}

// Rows `first` .. of X, on a device.
static Tensor *rows_of(const float *X, int first, int count, Device *device) {
    Tensor *rows = tensor_new(device, count, C, H, W);
    tensor_write(rows, X + first * C * H * W);
    attach_grad(rows);
    return rows;
}

// A loss whose gradient is not the same everywhere: a sum of Y alone has the gradient zero.
static Tensor *weighted_sum(Tensor *Y, Tensor *weights) {
    return sum(mm(reshape(Y, 1, (int)numel(Y)), reshape(weights, (int)numel(weights), 1)));
}

static void check_shards(const int counts[], int k, int rows) {
    float X[16 * C * H * W], weights[16 * C * H * W];
    random_floats(X, COUNT(X), 7);
    random_floats(weights, COUNT(weights), 8);
    Device *one = try_gpu(0);
    Tensor *whole = rows_of(X, 0, rows, one), *w = rows_of(weights, 0, rows, one);
    BatchNormTensors reference = layer_on(one), layers[8];
    begin_step(one);
    Tensor *Y = batch_norm(whole, reference, TRAINING);
    float *expected = tensor_values(Y), *dX_expected;
    backward(weighted_sum(Y, w));
    dX_expected = tensor_values(whole->grad);

    Tensor *shards[8], *outputs[8], *losses[8], *shard_weights[8];
    double dweight[C] = {0}, dbias[C] = {0};
    for (int i = 0, first = 0; i < k; first += counts[i++]) {
        shards[i] = rows_of(X, first, counts[i], try_gpu(i));
        shard_weights[i] = rows_of(weights, first, counts[i], try_gpu(i));
        layers[i] = layer_on(try_gpu(i));
        if (i > 0 || k == 1) begin_step(try_gpu(i));
    }
    begin_step(try_gpu(0));
    ledger_reset();
    sync_batch_norm(shards, layers, k, TRAINING, outputs);
    for (int i = 0; i < k; i++) losses[i] = weighted_sum(outputs[i], shard_weights[i]);
    backward_all(losses, k);
    synchronize_all();
    uint64_t pairs = (uint64_t)(k * (k - 1)), bytes = pairs * sizeof(float) * (4 * C + 1);
    assert_int_equal(ledger_bytes_between_devices(), bytes);
    for (int i = 0, first = 0; i < k; first += counts[i++]) {
        float *got = tensor_values(outputs[i]), *dX = tensor_values(shards[i]->grad);
        float *dw = tensor_values(layers[i].weight->grad);
        float *db = tensor_values(layers[i].bias->grad);
        for (int j = 0; j < counts[i] * C * H * W; j++) {
            int at = first * C * H * W + j;
            assert_true(fabs((double)(got[j] - expected[at])) <= 1e-5);
            assert_true(fabs((double)(dX[j] - dX_expected[at])) <= 1e-5);
        }
        for (int c = 0; c < C; c++) {
            dweight[c] += dw[c];
            dbias[c] += db[c];
        }
        assert_same_values(layers[i].running_mean, layers[0].running_mean, 0, "running mean");
        assert_same_values(layers[i].running_var, layers[0].running_var, 0, "running variance");
        free(got);
        free(dX);
        free(dw);
        free(db);
    }
    assert_same_values(layers[0].running_mean, reference.running_mean, 1e-6, "running mean");
    assert_same_values(layers[0].running_var, reference.running_var, 1e-6, "running variance");
    float *dw = tensor_values(reference.weight->grad), *db = tensor_values(reference.bias->grad);
    assert_all_close(dw, dweight, C, 1e-5, "the sum of the gradients of weight");
    assert_all_close(db, dbias, C, 1e-5, "the sum of the gradients of bias");
    free(dw);
    free(db);
    free(expected);
    free(dX_expected);
    for (int i = 0; i < k; i++) {
        tensor_free(shards[i]);
        tensor_free(shard_weights[i]);
        layer_free(layers[i]);
    }
    tensor_free(whole);
    tensor_free(w);
    layer_free(reference);
}

static void test_sync_batch_norm_is_one_minibatch(void **state) {
    (void)state;
    check_shards((int[]){5}, 1, 5);
    check_shards((int[]){2, 2}, 2, 4);
    check_shards((int[]){1, 4, 2}, 3, 7);
    check_shards((int[]){1, 1, 0, 0}, 4, 2); // fewer rows than devices
    check_shards((int[]){3, 3, 2, 2, 2}, 5, 12);
}

// Each device over its own rows is something else: the reason for sync_batch_norm.
static void test_local_batch_norm_differs(void **state) {
    (void)state;
    float X[4 * C * H * W];
    random_floats(X, COUNT(X), 7);
    Device *device = try_gpu(0);
    BatchNormTensors layer = layer_on(device);
    Tensor *whole = rows_of(X, 0, 4, device), *half = rows_of(X, 0, 2, device);
    begin_step(device);
    float *all = tensor_values(batch_norm(whole, layer, TRAINING));
    float *first = tensor_values(batch_norm(half, layer, TRAINING));
    assert_true(relative_difference(all, first, NULL, 2 * C * H * W) > 0.05);
    free(all);
    free(first);
    tensor_free(whole);
    tensor_free(half);
    layer_free(layer);
}

// d loss / d x by finite differences, in training and with the running statistics.
static double loss_of(Tensor *X, BatchNormTensors layer, Tensor *weights, bool training) {
    begin_step(X->device);
    set_grad_enabled(false);
    BatchNormOptions options = {training, .momentum = 0, .eps = 1e-5f};
    double loss = (double)item(weighted_sum(batch_norm(X, layer, options), weights));
    set_grad_enabled(true);
    return loss;
}

static void check_slopes(Tensor *t, Tensor *X, BatchNormTensors layer, Tensor *weights,
                         bool training) {
    float *values = tensor_values(t), *grad = tensor_values(t->grad);
    const float step = 1e-2f;
    for (size_t i = 0; i < numel(t); i++) {
        float old = values[i];
        values[i] = old + step;
        tensor_write(t, values);
        double up = loss_of(X, layer, weights, training);
        values[i] = old - step;
        tensor_write(t, values);
        double down = loss_of(X, layer, weights, training), slope = (up - down) / (2 * step);
        values[i] = old;
        tensor_write(t, values);
        if (!(fabs(slope - (double)grad[i]) <= 5e-3))
            fail_msg("training %d, element %zu: gradient %g, slope %g", training, i, grad[i],
                     slope);
    }
    free(values);
    free(grad);
}

static void test_batch_norm_gradients(void **state) {
    Device *device = device_under_test(state);
    for (int training = 0; training <= 1; training++) {
        Tensor *X = random_tensor(device, 11, 4, (int[]){4, C, H, W});
        Tensor *weights = random_tensor(device, 12, 4, (int[]){4, C, H, W});
        BatchNormTensors layer = layer_on(device);
        attach_grad(X);
        begin_step(device);
        BatchNormOptions options = {training, .momentum = 0, .eps = 1e-5f};
        backward(weighted_sum(batch_norm(X, layer, options), weights));
        check_slopes(X, X, layer, weights, training);
        check_slopes(layer.weight, X, layer, weights, training);
        check_slopes(layer.bias, X, layer, weights, training);
        tensor_free(X);
        tensor_free(weights);
        layer_free(layer);
    }
}

static void norm_of_one_value(void *arg) {
    (void)arg;
    Tensor *X = tensor_new(host(), 1, C);
    batch_norm(X, layer_on(host()), TRAINING);
}

static void norm_of_other_channels(void *arg) {
    (void)arg;
    batch_norm(tensor_new(host(), 2, C + 1, H, W), layer_on(host()), TRAINING);
}

static void norm_across_devices(void *arg) {
    (void)arg;
    BatchNormTensors layer = layer_on(host());
    layer.bias->device = try_gpu(0);
    batch_norm(tensor_new(host(), 2, C, H, W), layer, TRAINING);
}

static void backward_of_one_of_two(void *arg) {
    (void)arg;
    devices_init(BACKEND_CPU, 0); // or it would say here too that there is no GPU
    Tensor *X[2], *Y[2];
    BatchNormTensors layers[2];
    float values[2 * C * H * W] = {0};
    for (int i = 0; i < 2; i++) {
        begin_step(try_gpu(i));
        X[i] = rows_of(values, 0, 2, try_gpu(i));
        layers[i] = layer_on(try_gpu(i));
    }
    sync_batch_norm(X, layers, 2, TRAINING, Y);
    backward(sum(Y[0]));
}

static void backward_of_unlike_devices(void *arg) {
    (void)arg;
    devices_init(BACKEND_CPU, 0);
    Tensor *losses[2];
    float values[2 * C * H * W] = {0};
    for (int i = 0; i < 2; i++) {
        begin_step(try_gpu(i));
        Tensor *X = rows_of(values, 0, 2, try_gpu(i));
        losses[i] = sum(i ? relu(X) : X);
    }
    backward_all(losses, 2);
}

static void test_batch_norm_refuses(void **state) {
    (void)state;
    if (num_gpus() > 0) skip("a child process has no GPU");
    expect_death(1, "the variance of a single value is not known", norm_of_one_value, NULL);
    expect_death(1, "has shape (3,), X has shape (2, 4, 2, 3)", norm_of_other_channels, NULL);
    expect_death(1, "X is on host, the layer is on cpu:0", norm_across_devices, NULL);
    devices_close(); // so that the child starts its own workers
    expect_death(1, "needs backward_all()", backward_of_one_of_two, NULL);
    expect_death(1, "must have run the same operations", backward_of_unlike_devices, NULL);
}

// ---- modules ----------------------------------------------------------------------------------

static Module *small_net(void) {
    Module *net = Sequential(Conv2d(2, 4, .kernel_size = 3, .stride = 2, .padding = 1),
                             BatchNorm2d(4), ReLU());
    add_module(net, "block",
               Sequential(Residual(4, 4), Residual(4, 6, .use_1x1conv = true, .strides = 2)));
    add_module(net, "pool", AdaptiveAvgPool2d(1, 1));
    add_module(net, "fc", Sequential(Flatten(), Linear(6, 3)));
    return net;
}

static void test_names_and_shapes(void **state) {
    (void)state;
    static const char *const names[] = {"0.weight (4, 2, 3, 3)",
                                        "0.bias (4,)",
                                        "1.weight (4,)",
                                        "1.bias (4,)",
                                        "1.running_mean (4,)",
                                        "1.running_var (4,)",
                                        "block.0.conv1.weight (4, 4, 3, 3)",
                                        "block.0.conv1.bias (4,)",
                                        "block.0.conv2.weight (4, 4, 3, 3)",
                                        "block.0.conv2.bias (4,)",
                                        "block.0.bn1.weight (4,)",
                                        "block.0.bn1.bias (4,)",
                                        "block.0.bn1.running_mean (4,)",
                                        "block.0.bn1.running_var (4,)",
                                        "block.0.bn2.weight (4,)",
                                        "block.0.bn2.bias (4,)",
                                        "block.0.bn2.running_mean (4,)",
                                        "block.0.bn2.running_var (4,)",
                                        "block.1.conv1.weight (6, 4, 3, 3)",
                                        "block.1.conv1.bias (6,)",
                                        "block.1.conv2.weight (6, 6, 3, 3)",
                                        "block.1.conv2.bias (6,)",
                                        "block.1.conv3.weight (6, 4, 1, 1)",
                                        "block.1.conv3.bias (6,)"};
    Module *net = small_net();
    initialize(net, 1);
    Parameters all = parameters_of(net);
    assert_true(all.n > (int)COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++) {
        char text[100];
        snprintf(text, sizeof text, "%s %s", all.list[i]->name, shape_text(all.list[i]->start));
        assert_string_equal(text, names[i]);
    }
    assert_string_equal(all.list[all.n - 2]->name, "fc.1.weight");
    assert_string_equal(all.list[all.n - 1]->name, "fc.1.bias");
    module_free(net);
}

static void expect_shape(Tensor *Y, const char *shape) {
    assert_string_equal(shape_text(Y), shape);
}

static void test_outputs(void **state) {
    Device *device = device_under_test(state);
    Tensor *X = random_tensor(device, 1, 4, (int[]){5, 2, 8, 12});
    Module *pools = Sequential(AvgPool2d(2)), *adaptive = Sequential(AdaptiveAvgPool2d(2, 3));
    Module *net = small_net(), *dense = Sequential(Linear(1, 1)); // so that all have parameters
    add_module(pools, "p", Conv2d(2, 2, .kernel_size = 1));
    add_module(adaptive, "p", Conv2d(2, 2, .kernel_size = 1));
    Module *all[] = {pools, adaptive, net, dense};
    for (size_t i = 0; i < COUNT(all); i++) initialize(all[i], 1);
    begin_step(device);
    expect_shape(forward(pools, X), "(5, 2, 4, 6)");
    expect_shape(forward(adaptive, X), "(5, 2, 2, 3)");
    expect_shape(forward(net, X), "(5, 3)");
    for (size_t i = 0; i < COUNT(all); i++) module_free(all[i]);
    tensor_free(X);
}

// The residual block in plain operations.
static void test_residual_block(void **state) {
    Device *device = device_under_test(state);
    Module *net = Residual(4, 6, .use_1x1conv = true, .strides = 2);
    Tensor *X = random_tensor(device, 1, 4, (int[]){5, 4, 8, 8});
    initialize(net, 3);
    set_training(net, false); // at the start batch norm then divides by sqrt(1 + eps)
    begin_step(device);
    Tensor *Y = forward(net, X), *p[6];
    static const char *const names[] = {"conv1.weight", "conv1.bias",   "conv2.weight",
                                        "conv2.bias",   "conv3.weight", "conv3.bias"};
    for (int i = 0; i < 6; i++) p[i] = parameter_data(find_parameter(net, names[i]), device);
    Tensor *inner = relu(conv2d(X, p[0], p[1], .padding = 1, .stride = 2));
    Tensor *expected =
        relu(add(conv2d(inner, p[2], p[3], .padding = 1), conv2d(X, p[4], p[5], .stride = 2)));
    assert_same_values(Y, expected, 2e-5, "the residual block");
    tensor_free(X);
    module_free(net);
}

static void test_initialize(void **state) {
    (void)state;
    Module *net = Sequential(Conv2d(8, 50, .kernel_size = 5), BatchNorm2d(50)), *again;
    initialize(net, 5);
    const Parameter *weight = find_parameter(net, "0.weight");
    double sum = 0, squares = 0, n = (double)numel(weight->start);
    for (size_t i = 0; i < numel(weight->start); i++) {
        sum += (double)weight->start->data[i];
        squares += (double)weight->start->data[i] * (double)weight->start->data[i];
    }
    assert_true(fabs(sum / n) < 5e-4 && fabs(sqrt(squares / n) / 0.01 - 1) < 0.03);
    for (int c = 0; c < 50; c++) {
        assert_true(find_parameter(net, "0.bias")->start->data[c] == 0);
        assert_true(find_parameter(net, "1.weight")->start->data[c] == 1);
        assert_true(find_parameter(net, "1.running_mean")->start->data[c] == 0);
        assert_true(find_parameter(net, "1.running_var")->start->data[c] == 1);
    }
    again = Sequential(Conv2d(8, 50, .kernel_size = 5), BatchNorm2d(50));
    initialize(again, 5);
    assert_same_values(find_parameter(again, "0.weight")->start, weight->start, 0, "same seed");
    initialize(again, 6);
    assert_true(find_parameter(again, "0.weight")->start->data[0] != weight->start->data[0]);
    module_free(net);
    module_free(again);
}

static void ask_for_copy(void *parameter) { parameter_data(parameter, host()); }
static void ask_for_name(void *net) { find_parameter(net, "0.gamma"); }
static void ask_before_start(void *arg) {
    (void)arg;
    parameters_of(ReLU());
}

// Parameters are where data went through, and only there; initialize() takes them back.
static void test_copies_are_where_data_was(void **state) {
    (void)state;
    Module *net = small_net();
    initialize(net, 1);
    Parameter *weight = find_parameter(net, "0.weight");
    Tensor *X = random_tensor(try_gpu(1), 1, 4, (int[]){2, 2, 4, 4});
    begin_step(try_gpu(1));
    assert_null(weight->on[device_id(try_gpu(1))]);
    size_t before = device_bytes(try_gpu(0));
    forward(net, X);
    assert_non_null(weight->on[device_id(try_gpu(1))]);
    assert_null(weight->on[device_id(try_gpu(0))]);
    assert_int_equal(device_bytes(try_gpu(0)), before);
    assert_same_values(parameter_data(weight, try_gpu(1)), weight->start, 0, "the copy");
    expect_death(1, "parameter \"0.weight\" is not initialized on host", ask_for_copy, weight);
    expect_death(1, "the network has no parameter \"0.gamma\"", ask_for_name, net);
    expect_death(1, "initialize() the network first", ask_before_start, NULL);
    initialize(net, 2);
    assert_null(weight->on[device_id(try_gpu(1))]);
    tensor_free(X);
    module_free(net);
}

// ---- files ------------------------------------------------------------------------------------

static void load_it(void *net) { load_parameters(net, in_test_folder("net.safetensors")); }

static void test_files(void **state) {
    Device *device = device_under_test(state);
    Module *net = small_net(), *other = small_net(), *wrong = Sequential(Linear(2, 2));
    initialize(net, 1);
    initialize(other, 2);
    initialize(wrong, 1);
    Tensor *X = random_tensor(device, 1, 4, (int[]){2, 2, 8, 8});
    for (int step = 0; step < 3; step++) { // in training: the running statistics move
        begin_step(device);
        forward(net, X);
    }
    save_parameters(net, device, in_test_folder("net.safetensors"));
    SafetensorsFile file = safetensors_open(in_test_folder("net.safetensors"));
    const SafetensorsEntry *tracked = safetensors_find(&file, "block.1.bn2.num_batches_tracked");
    assert_non_null(tracked);
    assert_non_null(tracked->integers);
    assert_int_equal(tracked->ndim, 0);
    assert_int_equal(tracked->integers[0], 3);
    safetensors_close(&file);

    forward(other, X); // holds copies on the device already
    load_parameters(other, in_test_folder("net.safetensors"));
    set_training(net, false);
    set_training(other, false);
    begin_step(device);
    assert_same_values(forward(other, X), forward(net, X), 0, "after loading");
    Counts counts = counts_of(other);
    assert_int_equal(counts.n, 5);
    for (int i = 0; i < counts.n; i++) assert_int_equal(counts.list[i].value, 3);
    free_counts(&counts);
    if (num_gpus() == 0) expect_death(1, "tensor \"0.weight\" has shape", load_it, wrong);
    tensor_free(X);
    module_free(net);
    module_free(other);
    module_free(wrong);
}

// ---- main -------------------------------------------------------------------------------------

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_batch_norm_is_one_minibatch),
        cmocka_unit_test(test_local_batch_norm_differs),
        ON_BOTH(test_batch_norm_gradients),
        cmocka_unit_test(test_names_and_shapes),
        ON_BOTH(test_outputs),
        ON_BOTH(test_residual_block),
        cmocka_unit_test(test_initialize),
        cmocka_unit_test(test_copies_are_where_data_was),
        ON_BOTH(test_files),
        cmocka_unit_test(test_batch_norm_refuses), // last: closes the devices
    };
    int failed = cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
    devices_close();
    return failed;
}
