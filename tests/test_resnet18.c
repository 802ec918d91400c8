// test_resnet18.c: ResNet-18 against PyTorch's figures (tests/reference/resnet18.safetensors;
// make_resnet18.py there says what it holds), its training on k devices against that on one, and
// what k devices do with running statistics, checkpoints and test images.
#include "cases.h"
#include "common/data/checkpoints.h"
#include "common/data/safetensors.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "formula.h"

enum { ROWS = 6 };

static SafetensorsFile reference;
static Tensor *images, *labels; // on the host

static const SafetensorsEntry *part(const char *kind, const char *name, const char *end) {
    char *key = xprintf("%s%s%s", kind, name, end);
    const SafetensorsEntry *entry = safetensors_find(&reference, key);
    free(key);
    return entry;
}

static Module *filled(Module *net) { return fill_network(net), net; }

// One that computes quickly, for what does not depend on the network.
static Module *small_net(void) {
    return Sequential(Conv2d(1, 3, .kernel_size = 5), BatchNorm2d(3), ReLU(),
                      AdaptiveAvgPool2d(2, 2), Flatten(), Linear(12, 10));
}

// ---- against PyTorch --------------------------------------------------------------------------

// Differences are measured by the size of the whole tensor, because some of its elements are small
// differences of large numbers.
static void check(const char *what, double ours, double theirs, double scale) {
    if (!(fabs(ours - theirs) <= 1e-4 * scale))
        fail_msg("%s: %.9g, PyTorch has %.9g (scale %g)", what, ours, theirs, scale);
}

static void check_tensor(const Tensor *t, const SafetensorsEntry *expected) {
    assert_true(expected && expected->count == numel(t));
    float *values = values_of(t);
    double scale = 0;
    for (size_t i = 0; i < expected->count; i++)
        scale = fmax(scale, fabs((double)expected->values[i]));
    for (size_t i = 0; i < expected->count; i++)
        check(expected->name, values[i], expected->values[i], scale);
}

// Ours is the gradient of the sum of the losses, PyTorch's that of their mean. The bias of a
// convolution before a batch norm has the gradient 0: there, rounding is all there is, so its scale
// is that of the weight's gradient.
static void check_gradient(const Parameter *p, const Parameter *before, Device *device) {
    const SafetensorsEntry *index = part("grad.", p->name, ".index");
    const SafetensorsEntry *some = part("grad.", p->name, index ? ".value" : "");
    const SafetensorsEntry *norm = part("grad.", p->name, ".norm");
    assert_true(some && norm && some->count > 0);
    const Tensor *grad = parameter_data(p, device)->grad;
    float *ours = values_of(grad);
    double squares = 0, scale = norm->values[0];
    for (size_t i = 0; i < numel(grad); i++) squares += (double)ours[i] * ours[i];
    if (ends_with(p->name, "bias"))
        scale = fmax(scale, part("grad.", before->name, ".norm")->values[0]);
    check(norm->name, sqrt(squares) / ROWS, norm->values[0], scale);
    for (size_t i = 0; i < some->count; i++)
        check(some->name, ours[index ? (size_t)index->values[i] : i] / ROWS, some->values[i],
              scale);
}

static void test_one_step(void **state) {
    Device *device = device_under_test(state);
    Module *net = filled(resnet18(10, 1));
    Tensor *X = keep(tensor_to(images, device)), *y = keep(tensor_to(labels, device));
    set_training(net, false);
    begin_step(device);
    check_tensor(forward(net, X), part("eval.", "logits", ""));

    set_training(net, true);
    begin_step(device);
    Tensor *logits = forward(net, X), *loss = sum(cross_entropy(logits, y));
    backward(loss);
    check_tensor(logits, part("logits", "", ""));
    check("the mean loss", item(loss) / ROWS, part("loss", "", "")->values[0], 1);
    Parameters all = parameters_of(net);
    int trained_ones = 0;
    for (int p = 0; p < all.n; p++) {
        const Parameter *parameter = all.list[p];
        trained_ones += parameter->trained;
        if (parameter->trained)
            check_gradient(parameter, all.list[p ? p - 1 : 0], device);
        else
            check_tensor(parameter_data(parameter, device), part("after.", parameter->name, ""));
    }
    assert_int_equal(trained_ones, 76);
    module_free(net);
}

static void open_checkpoint(void *path) { checkpoint_open(path); }

// What --save writes has the names, shapes and types of PyTorch's state_dict, and no others.
static void test_saved_names(void **state) {
    (void)state;
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
    expect_death(1, "is no checkpoint", open_checkpoint, (void *)path);
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
static void test_sync_is_one_device(void **state) {
    (void)state;
    static const Range unequal[] = {{0, 1}, {1, 0}, {1, ROWS - 1}};
    DataParallel one = on_devices(filled(resnet18(10, 1)), 1, BN_SYNC);
    DataParallel dp = on_devices(filled(resnet18(10, 1)), 3, BN_SYNC);
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
    assert_int_equal(statistics_bytes(dp), bytes[dp->bn]);
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
    const Checkpoint saved = {.run = 1,
                              .epoch = 2,
                              .step = 3,
                              .settings = (char *)"these settings",
                              .length = (char *)"--epochs 3",
                              .history = (char *)"1,1,0.5,0.5,1\n"};
    int replicas = dp->bn == BN_LOCAL ? 2 : 1;
    checkpoint_save(path, &saved, dp->net, dp->devices, replicas);
    steps(dp, 8, NULL);
    Module *net = small_net();
    initialize(net, 99);
    DataParallel again = on_devices(net, 2, dp->bn);
    Checkpoint read = checkpoint_open(path);
    assert_true(read.run == 1 && read.epoch == 2 && read.step == 3);
    assert_string_equal(read.settings, saved.settings);
    assert_string_equal(read.length, saved.length);
    assert_string_equal(read.history, saved.history);
    checkpoint_close(&read);
    checkpoint_load(path, again.net, again.devices, 2, replicas);
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

static void test_modes(void **state) {
    (void)state;
    for (BatchNormMode mode = BN_LOCAL; mode <= BN_SYNC; mode++) {
        DataParallel dp = on_devices(filled(small_net()), 2, mode);
        steps(&dp, 2, NULL);
        check_sharing(&dp);
        check_checkpoint(&dp);
        module_free(dp.net);
    }
}

// Counts are whole numbers, so k devices find the accuracy of one exactly (given one start).
static void test_evaluation(void **state) {
    (void)state;
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
static void test_memory(void **state) {
    (void)state;
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
    return make_test_folder(state);
}

static int teardown(void **state) {
    safetensors_close(&reference);
    free_kept();
    tensor_free(images);
    tensor_free(labels);
    devices_close();
    return remove_test_folder(state);
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_one_step),
        UNLESS_SIMULATED(test_saved_names),
        UNLESS_SIMULATED(test_modes),
        UNLESS_SIMULATED(test_sync_is_one_device),

        UNLESS_SIMULATED(test_evaluation),
        UNLESS_SIMULATED(test_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
