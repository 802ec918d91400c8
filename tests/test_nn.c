// test_nn.c: batch normalisation on several devices together, and modules: their shapes, copies on
// devices, files, and what they refuse. The numbers of a whole network, and its names, are compared
// with PyTorch's in test_resnet18.c; gradients on one device are in test_autograd.c.
#include "cases.h"
#include "common/data/checkpoints.h"
#include "common/data/safetensors.h"
#include "common/tensor/nn.h"

static void assert_same_values(const Tensor *a, const Tensor *b) {
    assert_true(same_shape(a, b));
    assert_memory_equal(values_of(a), values_of(b), tensor_bytes(a));
}

// ---- batch norm: k shards together are one minibatch ------------------------------------------

enum { C = 3, H = 2, W = 3, PIXELS = C * H * W, MOST = 5, MAX_ROWS = 12 };
static const BatchNormOptions TRAINING = {.training = true, .momentum = 0.1f, .eps = 1e-5f};

// A layer on a device, the same on each.
static BatchNormTensors layer_on(Device *device) {
    next_seed = 100;
    BatchNormTensors layer = {PARAM(device, C), PARAM(device, C), RANDOM(device, C),
                              RANDOM(device, C)};
    float *variances = values_of(layer.running_var);
    for (int c = 0; c < C; c++) variances[c] += 1.5f;
    tensor_write(layer.running_var, variances);
    return layer;
}

static Tensor *rows_of(const float *X, int first, int count, Device *device) {
    Tensor *rows = trained(keep(tensor_new(device, count, C, H, W)));
    tensor_write(rows, X + first * PIXELS);
    return rows;
}

// Forward and backward on k shards. The loss is not sum(Y), whose gradient is zero. Leaves Y, dX,
// and the gradients of weight and bias, summed over the devices, in `all`.
typedef struct Figures {
    float Y[MAX_ROWS * PIXELS], dX[MAX_ROWS * PIXELS], dweight[C], dbias[C], mean[C], variance[C];
} Figures;

static Figures run_shards(const int rows[], int k, const float *X, const float *weights) {
    Tensor *shards[MOST], *outputs[MOST], *losses[MOST];
    BatchNormTensors layers[MOST];
    Figures all = {.mean = {0}};
    for (int i = 0, first = 0; i < k; first += rows[i++]) {
        shards[i] = rows_of(X, first, rows[i], try_gpu(i));
        losses[i] = rows_of(weights, first, rows[i], try_gpu(i));
        layers[i] = layer_on(try_gpu(i));
    }
    for (int i = 0; i < k; i++) begin_step(try_gpu(i));
    ledger_reset();
    sync_batch_norm(shards, layers, k, TRAINING, outputs);
    for (int i = 0; i < k; i++)
        losses[i] = sum(
            mm(reshape(outputs[i], 1, rows[i] * PIXELS), reshape(losses[i], rows[i] * PIXELS, 1)));
    backward_all(losses, k);
    synchronize_all();
    assert_int_equal(ledger_bytes_between_devices(), k * (k - 1) * 4 * (4 * C + 1));
    for (int i = 0, first = 0; i < k; first += rows[i++]) {
        tensor_read(outputs[i], all.Y + first * PIXELS);
        tensor_read(shards[i]->grad, all.dX + first * PIXELS);
        for (int c = 0; c < C; c++) {
            all.dweight[c] += values_of(layers[i].weight->grad)[c];
            all.dbias[c] += values_of(layers[i].bias->grad)[c];
        }
        assert_same_values(layers[i].running_mean, layers[0].running_mean);
        assert_same_values(layers[i].running_var, layers[0].running_var);
    }
    tensor_read(layers[0].running_mean, all.mean);
    tensor_read(layers[0].running_var, all.variance);
    return all;
}

static void test_sync_batch_norm_is_one_minibatch(void **state) {
    (void)state;
    static const struct {
        int k, rows[MOST], all;
    } table[] = {{2, {2, 2}, 4},
                 {3, {1, 4, 2}, 7},
                 {4, {1, 1, 0, 0}, 2}, // fewer rows than devices
                 {5, {3, 3, 2, 2, 2}, 12}};
    float X[MAX_ROWS * PIXELS], weights[MAX_ROWS * PIXELS];
    random_floats(X, COUNT(X), 7);
    random_floats(weights, COUNT(weights), 8);
    for (size_t t = 0; t < COUNT(table); t++) {
        Figures one = run_shards(&table[t].all, 1, X, weights);
        Figures many = run_shards(table[t].rows, table[t].k, X, weights);
        const float *got = (float *)&many, *expected = (float *)&one;
        for (size_t i = 0; i < sizeof one / sizeof *got; i++)
            if (!(fabs((double)got[i] - expected[i]) <= 1e-5 * fmax(1, fabs(expected[i]))))
                fail_msg("k = %d: number %zu of Figures is %g, on one device %g", table[t].k, i,
                         got[i], expected[i]);
    }
    // sync_batch_norm() of one is batch_norm().
    begin_step(try_gpu(0));
    Tensor *whole = rows_of(X, 0, 2, try_gpu(0)), *Y;
    BatchNormTensors layer = layer_on(try_gpu(0));
    sync_batch_norm(&whole, &layer, 1, TRAINING, &Y);
    assert_same_values(Y, batch_norm(whole, layer, TRAINING));
}

// Without backward_all(), or with networks that differ.
static void together(bool all, bool alike) {
    float values[2 * PIXELS] = {0};
    Tensor *X[2], *Y[2];
    BatchNormTensors layers[2];
    for (int i = 0; i < 2; i++) {
        begin_step(try_gpu(i));
        X[i] = rows_of(values, 0, 2, try_gpu(i));
        layers[i] = layer_on(try_gpu(i));
    }
    sync_batch_norm(X, layers, 2, TRAINING, Y);
    if (!all) backward(sum(Y[0]));
    for (int i = 0; i < 2; i++) Y[i] = sum(i || alike ? relu(Y[i]) : Y[i]);
    backward_all(Y, 2);
}

static void across_devices(void) {
    BatchNormTensors layer = layer_on(host());
    layer.bias->device = try_gpu(0);
    batch_norm(tensor_new(host(), 2, C, H, W), layer, TRAINING);
}

// clang-format off
DIES("the variance of a single value is not known",
     batch_norm(tensor_new(host(), 1, C), layer_on(host()), TRAINING))
DIES("has shape (3,), X has shape (2, 4, 2, 3)",
     batch_norm(tensor_new(host(), 2, C + 1, H, W), layer_on(host()), TRAINING))
DIES("X is on host, the layer is on cpu:0", across_devices())
DIES("needs backward_all()", together(false, true))
DIES("must have run the same operations", together(true, false))
// clang-format on

// ---- modules ----------------------------------------------------------------------------------

static Module *small_net(uint64_t seed) {
    Module *net = Sequential(Conv2d(2, 4, .kernel_size = 3, .stride = 2, .padding = 1),
                             BatchNorm2d(4), ReLU());
    add_module(net, "block", Residual(4, 6, .use_1x1conv = true, .strides = 2));
    add_module(net, "pool", AdaptiveAvgPool2d(1, 1));
    add_module(net, "fc", Sequential(Flatten(), Linear(6, 3)));
    initialize(net, seed);
    return net;
}

static void pool_to_2x2(int h, int w) {
    Module *net = Sequential(BatchNorm2d(C), AdaptiveAvgPool2d(2, 2));
    initialize(net, 1);
    forward(net, keep(tensor_new(try_gpu(0), 1, C, h, w)));
}
DIES("must be multiples of the output's", pool_to_2x2(3, 4))
DIES("must be multiples of the output's", pool_to_2x2(4, 3))

static void test_shapes(void **state) {
    Device *device = device_under_test(state);
    const struct {
        Module *net;
        const char *gives;
    } table[] = {
        {Sequential(AvgPool2d(2), Conv2d(2, 2, .kernel_size = 1)), "(5, 2, 4, 6)"},
        {Sequential(AdaptiveAvgPool2d(2, 3), Conv2d(2, 2, .kernel_size = 1)), "(5, 2, 2, 3)"},
        {small_net(1), "(5, 3)"}};
    for (size_t i = 0; i < COUNT(table); i++) {
        begin_step(device);
        initialize(table[i].net, 1);
        Tensor *Y = forward(table[i].net, RANDOM(device, 5, 2, 8, 12));
        assert_string_equal(shape_text(Y), table[i].gives);
        begin_step(device); // nothing of the network is on the tape now
        module_free(table[i].net);
    }
}

static void test_initialize(void **state) {
    (void)state;
    Module *net = Sequential(Conv2d(8, 50, .kernel_size = 5), BatchNorm2d(50));
    static const struct {
        const char *name;
        double mean, deviation;
    } table[] = {{"0.weight", 0, 0.01}, {"0.bias", 0, 0},         {"1.weight", 1, 0},
                 {"1.bias", 0, 0},      {"1.running_mean", 0, 0}, {"1.running_var", 1, 0}};
    initialize(net, 5);
    for (size_t t = 0; t < COUNT(table); t++) {
        const Tensor *start = find_parameter(net, table[t].name)->start;
        double sum = 0, squares = 0, n = (double)numel(start);
        for (size_t i = 0; i < numel(start); i++) {
            double more = (double)start->data[i] - table[t].mean;
            sum += more;
            squares += more * more;
        }
        assert_true(fabs(sum / n) <= 0.05 * table[t].deviation);
        assert_true(fabs(sqrt(squares / n) - table[t].deviation) <= 0.03 * table[t].deviation);
    }
    Tensor *first = find_parameter(net, "0.weight")->start;
    float *values = values_of(first);
    initialize(net, 6);
    assert_true(first->data[0] != values[0]);
    initialize(net, 5);
    assert_memory_equal(first->data, values, tensor_bytes(first));
    module_free(net);
}

// Parameters are where data went through, and only there; initialize() takes them back.
static void test_copies_are_where_data_was(void **state) {
    (void)state;
    Module *net = small_net(1);
    Parameter *weight = find_parameter(net, "0.weight");
    Tensor *const *there = &weight->on[device_id(try_gpu(1))];
    Tensor *X = RANDOM(try_gpu(1), 2, 2, 4, 4);
    begin_step(try_gpu(1));
    assert_null(*there);
    size_t before = device_bytes(try_gpu(0));
    forward(net, X);
    assert_ptr_equal(parameter_data(weight, try_gpu(1)), *there);
    assert_same_values(*there, weight->start);
    assert_null(weight->on[device_id(try_gpu(0))]);
    assert_int_equal(device_bytes(try_gpu(0)), before);
    initialize(net, 2);
    assert_null(*there);
    module_free(net);
}

// clang-format off
DIES("parameter \"0.weight\" is not initialized on host",
     parameter_data(find_parameter(small_net(1), "0.weight"), host()))
DIES("the network has no parameter \"0.gamma\"", find_parameter(small_net(1), "0.gamma"))
DIES("initialize() the network first", parameters_of(ReLU()))
// clang-format on

// ---- files ------------------------------------------------------------------------------------

static void test_files(void **state) {
    Device *device = device_under_test(state);
    Module *net = small_net(1), *other = small_net(2);
    Tensor *X = RANDOM(device, 2, 2, 8, 8);
    const char *path = in_test_folder("net.safetensors");
    for (int step = 0; step < 3; step++) { // in training: the running statistics move
        begin_step(device);
        forward(net, X);
    }
    save_parameters(net, device, path);
    SafetensorsFile file = safetensors_open(path);
    const SafetensorsEntry *tracked = safetensors_find(&file, "block.bn2.num_batches_tracked");
    assert_true(tracked && tracked->integers && tracked->ndim == 0 && tracked->integers[0] == 3);
    safetensors_close(&file);

    forward(other, X); // holds copies on the device already
    load_parameters(other, path);
    set_training(net, false);
    set_training(other, false);
    begin_step(device);
    assert_same_values(forward(other, X), forward(net, X));
    Counts counts = counts_of(other, false);
    assert_int_equal(counts.n, 3);
    for (int i = 0; i < counts.n; i++) assert_int_equal(counts.list[i].value, 3);
    free_counts(&counts);
    module_free(net);
    module_free(other);
}

static void load_another(void) {
    Module *net = small_net(1), *wrong = Sequential(Linear(2, 2));
    place_on(net, try_gpu(0));
    save_parameters(net, try_gpu(0), in_test_folder("another.safetensors"));
    initialize(wrong, 1);
    load_parameters(wrong, in_test_folder("another.safetensors"));
}
DIES("tensor \"0.weight\" has shape", load_another())

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expect_deaths),
        cmocka_unit_test(test_sync_batch_norm_is_one_minibatch),
        ON_BOTH(test_shapes),
        cmocka_unit_test(test_initialize),
        cmocka_unit_test(test_copies_are_where_data_was),
        ON_BOTH(test_files),
    };
    int failed = cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
    free_kept();
    devices_close();
    return failed;
}
