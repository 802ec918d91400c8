// test_resnet18.c: ResNet-18 against PyTorch's figures (tests/reference/resnet18.safetensors;
// make_resnet18.py there says what it holds), its training on k devices against that on one, and
// what k devices do with running statistics, checkpoints and test images.
#include "cases.h"
#include "common/data/checkpoints.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "figures.h"
#include "formula.h"

enum { ROWS = 6 };

static Tensor *images, *labels; // on the host

static Module *filled(Module *net) { return fill_network(net), net; }

// One that computes quickly, for what does not depend on the network.
static Module *small_net(void) {
    return Sequential(Conv2d(1, 3, .kernel_size = 5), BatchNorm2d(3), ReLU(),
                      AdaptiveAvgPool2d(2, 2), Flatten(), Linear(12, 10));
}

// ---- against PyTorch --------------------------------------------------------------------------

// Differences are measured by the size of the whole tensor, because some of its elements are small
// differences of large numbers.
static const double tolerance = 1e-4;

static void check_tensor(const Tensor *t, const SafetensorsEntry *expected) {
    assert_int_equal(expected->count, numel(t));
    float *values = values_of(t);
    double allowed = tolerance * largest_of(expected->values, expected->count);
    for (size_t i = 0; i < expected->count; i++)
        check(expected->name, i, values[i], expected->values[i], allowed);
}

// Ours is the gradient of the sum of the losses, PyTorch's that of their mean. The bias of a
// convolution before a batch norm has the gradient 0: there, rounding is all there is, so its scale
// is that of the weight's gradient.
static double scale_of(const Parameter *p, const Parameter *before) {
    double scale = part("grad.%s.norm", p->name)->values[0];
    if (!ends_with(p->name, "bias")) return scale;
    return fmax(scale, part("grad.%s.norm", before->name)->values[0]);
}

TEST_ON_BOTH(test_one_step) {
    Device *device = device_under_test(state);
    Module *net = filled(resnet18(10, 1));
    Tensor *X = keep(tensor_to(images, device)), *y = keep(tensor_to(labels, device));
    set_training(net, false);
    begin_step(device);
    check_tensor(forward(net, X), part("eval.logits"));

    set_training(net, true);
    begin_step(device);
    Tensor *logits = forward(net, X), *loss = sum(cross_entropy(logits, y));
    backward(loss);
    check_tensor(logits, part("logits"));
    check("the mean loss", 0, item(loss) / ROWS, part("loss")->values[0], tolerance);
    Parameters all = parameters_of(net);
    int trained_ones = 0;
    for (int p = 0; p < all.n; p++) {
        const Parameter *parameter = all.list[p];
        trained_ones += parameter->trained;
        if (parameter->trained)
            check_gradient("grad.", parameter_data(parameter, device)->grad, parameter->name, ROWS,
                           0, tolerance * scale_of(parameter, all.list[p ? p - 1 : 0]));
        else
            check_tensor(parameter_data(parameter, device), part("after.%s", parameter->name));
    }
    assert_int_equal(trained_ones, 76);
    module_free(net);
}

// What --save writes has the names, shapes and types of PyTorch's state_dict, and no others.
TEST_UNLESS_SIMULATED(test_saved_names) {
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    place_on(net, try_gpu(0));
    const char *path = in_test_folder("resnet18.safetensors");
    save_parameters(net, try_gpu(0), path);
    SafetensorsFile file = safetensors_open(path);
    int expected = 0;
    for (int i = 0; i < reference.n; i++) {
        const SafetensorsEntry *shape = &reference.entries[i];
        if (strncmp(shape->name, "shape.", 6) != 0) continue;
        const SafetensorsEntry *entry = safetensors_find(&file, shape->name + 6);
        expected++;
        if (!entry) fail_msg("the file lacks %s", shape->name + 6);
        assert_int_equal(entry->ndim, shape->count);
        for (int d = 0; d < entry->ndim; d++)
            assert_int_equal(entry->shape[d], (int)shape->values[d]);
        assert_int_equal(entry->integers != NULL, ends_with(entry->name, "num_batches_tracked"));
    }
    assert_int_equal(file.n, expected);
    safetensors_close(&file);
    module_free(net);
}

// ---- k devices --------------------------------------------------------------------------------

static DataParallel on_devices(Module *net, int k, BatchNormMode mode) {
    Device *devices[MAX_DEVICES];
    open_devices(devices, k);
    return data_parallel(net, devices, k, mode);
}

static FlatParameters flat(const DataParallel *dp, int i) {
    return flat_parameters(dp->net, dp->devices[i]);
}

// Trains on shards (NULL: equal ones). Returns the loss of the last step.
static double steps(DataParallel *dp, int num_steps, const Range *shards) {
    Tensor *losses[MAX_DEVICES];
    double loss = 0;
    while (num_steps-- > 0) {
        ledger_reset();
        if (shards)
            train_step_as(dp, shards, images, labels, 0.02f, losses);
        else
            train_step(dp, images, labels, 0.02f, losses);
        loss = 0;
        for (int i = 0; i < dp->k; i++) loss += (double)item(losses[i]);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), step_bytes(dp));
    }
    return loss;
}

static void expect_close(const Tensor *t, const Tensor *expected) {
    float *x = values_of(t), *y = values_of(expected);
    for (size_t j = 0; j < numel(t); j++)
        if (!(fabs((double)x[j] - (double)y[j]) <= 1e-4))
            fail_msg("value %zu is %g, on one device %g", j, x[j], y[j]);
}

static void expect_same(const Tensor *t, const float *values) {
    assert_memory_equal(values_of(t), values, tensor_bytes(t));
}

// With BN_SYNC, in equal shards and in others, none among them (exercise 05-2).
TEST(test_sync_is_one_device) {
    static const Range unequal[] = {{0, 1}, {1, 0}, {1, ROWS - 1}};
    Module *nets[2]; // (where GPUs are simulated, ResNet-18 takes minutes)
    for (int i = 0; i < 2; i++)
        nets[i] = filled(SIMULATED && num_gpus() ? small_net() : resnet18(10, 1));
    DataParallel one = on_devices(nets[0], 1, BN_SYNC), dp = on_devices(nets[1], 3, BN_SYNC);
    double loss = steps(&one, 2, NULL);
    steps(&dp, 1, NULL);
    assert_true(fabs(steps(&dp, 1, unequal) - loss) <= 1e-4 * loss);
    expect_close(flat(&dp, 0).data, flat(&one, 0).data);
    expect_close(flat(&dp, 0).buffers, flat(&one, 0).buffers);
    for (int i = 1; i < 3; i++) {
        expect_same(flat(&dp, i).data, values_of(flat(&dp, 0).data));
        expect_same(flat(&dp, i).buffers, values_of(flat(&dp, 0).buffers));
    }
    module_free(one.net);
    module_free(dp.net);
}

// Each mode's running statistics, of two replicas.
static void check_sharing(DataParallel *dp) {
    const size_t n = numel(flat(dp, 0).buffers), bytes[] = {0, 4 * n, 8 * n, 0};
    float *a = values_of(flat(dp, 0).buffers), *b = values_of(flat(dp, 1).buffers);
    assert_int_equal(relative_difference(a, b, NULL, n) > 1e-3, dp->bn != BN_SYNC);
    ledger_reset();
    share_statistics(dp);
    synchronize_all();
    assert_int_equal(ledger_bytes_between_devices(), bytes[dp->bn]);
    for (int i = 0; i < 2; i++) {
        double expected[64];
        for (size_t c = 0; c < n; c++)
            expected[c] = dp->bn == BN_AVERAGED ? ((double)a[c] + (double)b[c]) / 2
                          : dp->bn == BN_RANK0  ? (double)a[c]
                                                : (double)(i ? b : a)[c];
        assert_all_close(values_of(flat(dp, i).buffers), expected, n, 1e-6, "shared statistics");
    }
}

// The steps after a checkpoint have the bits of the steps without; also if the host does not wait
// between them (exercise 05-3).
static void check_checkpoint(DataParallel *dp) {
    const char *path = in_test_folder("checkpoint.safetensors");
    int replicas = dp->bn == BN_LOCAL ? 2 : 1;
    checkpoint_save(path, dp->net, dp->devices, replicas, 2, "these settings", "1,1,0.5,0.5,1\n");
    steps(dp, 8, NULL);
    Module *net = small_net();
    initialize(net, 99);
    DataParallel again = on_devices(net, 2, dp->bn);
    char *history;
    assert_int_equal(
        checkpoint_load(path, net, again.devices, 2, replicas, "these settings", 2, &history), 2);
    assert_string_equal(history, "1,1,0.5,0.5,1\n");
    free(history);
    Tensor *losses[MAX_DEVICES];
    for (int step = 0; step < 8; step++) train_step(&again, images, labels, 0.02f, losses);
    for (int i = 0; i < 2; i++) {
        expect_same(flat(&again, i).data, values_of(flat(dp, i).data));
        expect_same(flat(&again, i).buffers, values_of(flat(dp, i).buffers));
    }
    Counts counts = counts_of(again.net, false);
    assert_int_equal(counts.list[0].value, 2 + 8);
    free_counts(&counts);
    module_free(again.net);
}

TEST(test_modes) {
    for (BatchNormMode mode = BN_LOCAL; mode <= BN_SYNC; mode++) {
        DataParallel dp = on_devices(filled(small_net()), 2, mode);
        steps(&dp, 2, NULL);
        check_sharing(&dp);
        check_checkpoint(&dp);
        module_free(dp.net);
    }
}

// Counts are whole numbers, so k devices find the accuracy of one exactly (given one start).
TEST_UNLESS_SIMULATED(test_evaluation) {
    Dataset *data = fashion_mnist_open(NULL, false, 33);
    DataIter *iter = data_iter_new(data, 16, false, 0); // the last minibatch has one image
    double accuracy[4];
    for (int k = 1; k <= 3; k++) {
        DataParallel dp = on_devices(filled(resnet18(10, 1)), k, BN_AVERAGED);
        float *statistics = values_of(flat(&dp, 0).buffers);
        accuracy[k] = evaluate_accuracy_gpus(&dp, iter);
        if (k == 1) expect_same(flat(&dp, 0).buffers, statistics); // only training moves them
        module_free(dp.net);
    }
    assert_true(accuracy[1] >= 0 && accuracy[1] <= 1);
    assert_true(fabs(accuracy[1] * 33 - round(accuracy[1] * 33)) < 1e-9);
    assert_true(accuracy[2] == accuracy[1] && accuracy[3] == accuracy[1]);
    data_iter_free(iter);
    dataset_free(data);
}

// Memory of one device in training: parameters, gradients, activations and theirs.
TEST_UNLESS_SIMULATED(test_memory) {
    autograd_close(); // what the tests before needed
    size_t before = device_bytes(try_gpu(0));
    DataParallel dp = on_devices(filled(resnet18(10, 1)), 1, BN_LOCAL);
    Tensor *X, *y, *losses[1];
    formula_batch(16, &X, &y);
    train_step(&dp, keep(X), keep(y), 0.01f, losses);
    synchronize_all();
    size_t bytes = device_bytes(try_gpu(0)) - before;
    size_t most = num_gpus() > 0 ? 500 : 190; // MB; a GPU's has scratch memory too
    if (!(bytes > 2 * parameter_bytes(dp.net) && bytes < most * 1000 * 1000))
        fail_msg("%zu bytes", bytes);
    module_free(dp.net);
}

// ---- main -------------------------------------------------------------------------------------

static int setup(void **state) {
    reference = safetensors_open("tests/reference/resnet18.safetensors");
    formula_batch(ROWS, &images, &labels);
    keep(images), keep(labels);
    return make_test_folder(state);
}

static int teardown(void **state) {
    safetensors_close(&reference);
    return close_and_clean(state);
}

int main(void) { return run_all("resnet18", setup, teardown); }
