// test_nn.c: modules: their shapes, copies on devices, files, and what they and batch normalisation
// refuse. The numbers of a whole network, and its names, are compared with PyTorch's in
// test_resnet18.c, and so is batch norm on several devices with that on one; gradients are in
// test_autograd.c.
#include "cases.h"
#include "common/data/checkpoints.h"
#include "common/data/safetensors.h"
#include "common/tensor/nn.h"
#include "common/tensor/transformer.h"

DEATHS_FIRST

static void assert_same_values(const Tensor *a, const Tensor *b) {
    assert_true(same_shape(a, b));
    assert_memory_equal(values_of(a), values_of(b), tensor_bytes(a));
}

// ---- batch norm: what is refused ---------------------------------------------------------------

enum { C = 3, H = 2, W = 3 };
static const BatchNormOptions TRAINING = {.training = true, .momentum = 0.1f, .eps = 1e-5f};

static BatchNormTensors layer_on(Device *device) {
    return (BatchNormTensors){PARAM(device, C), PARAM(device, C), RANDOM(device, C),
                              RANDOM(device, C)};
}

// Without backward_all(), or with networks that differ.
static void together(bool all, bool alike) {
    Tensor *X[2], *Y[2];
    BatchNormTensors layers[2];
    for (int i = 0; i < 2; i++) {
        begin_step(try_gpu(i));
        X[i] = PARAM(try_gpu(i), 2, C, H, W);
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

TEST_ON_BOTH(test_shapes) {
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

// An MLP of modules computes what the functions compute.
TEST_ON_BOTH(test_layer_norm_and_gelu) {
    Device *device = device_under_test(state);
    Module *net = Sequential(LayerNorm(8), GELU(), Linear(8, 3));
    initialize(net, 1);
    Tensor *X = RANDOM(device, 5, 8), *p[4];
    begin_step(device);
    Tensor *Y = forward(net, X);
    for (int i = 0; i < 4; i++) p[i] = parameter_data(parameters_of(net).list[i], device);
    Tensor *same = linear(gelu(layer_norm(X, p[0], p[1])), p[2], p[3]);
    assert_memory_equal(values_of(Y), values_of(same), tensor_bytes(Y));
    assert_filled(p[0], 1);
    begin_step(device);
    module_free(net);
}

TEST(test_initialize) {
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
TEST(test_copies_are_where_data_was) {
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

TEST_ON_BOTH(test_files) {
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
DIES("tensor \"0.weight\" is F32 of shape", load_another())

int main(void) { return run_all("nn", make_test_folder, close_and_clean); }
