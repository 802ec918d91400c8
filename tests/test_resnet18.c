// test_resnet18.c: ResNet-18 against PyTorch's figures (tests/reference/resnet18.safetensors;
// make_resnet18.py there says what it holds), and its training on k devices against that on one.
#include "common/base/error.h"
#include "common/data/network_file.h"
#include "common/data/safetensors.h"
#include "chapters/05_resnet18_concise/checkpoint.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "dies.h"
#include "formula.h"

static SafetensorsFile reference;

static const SafetensorsEntry *part(const char *kind, const char *name) {
    char *key = xprintf("%s%s", kind, name);
    const SafetensorsEntry *entry = safetensors_find(&reference, key);
    free(key);
    return entry;
}

enum { ROWS = 6 };

static Module *reference_net(void) {
    Module *net = resnet18(10, 1);
    fill_network(net);
    return net;
}

static void reference_batch(Tensor **X, Tensor **y) { formula_batch(ROWS, X, y); }

// ---- against PyTorch --------------------------------------------------------------------------

// Differences are measured by the size of the whole tensor, because some of its elements are small
// differences of large numbers.
static void check(const char *what, const float *ours, const float *theirs, size_t n, double scale,
                  double factor) {
    for (size_t i = 0; i < n; i++) {
        double difference = fabs(factor * (double)ours[i] - (double)theirs[i]);
        if (!(difference <= 1e-4 * scale))
            fail_msg("%s[%zu] is %.9g, PyTorch has %.9g (scale %g)", what, i,
                     factor * (double)ours[i], theirs[i], scale);
    }
}

static double largest(const float *values, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)values[i]));
    return most;
}

static void check_tensor(const Tensor *t, const SafetensorsEntry *expected) {
    assert_non_null(expected);
    assert_int_equal(numel(t), expected->count);
    float *values = tensor_values(t);
    check(expected->name, values, expected->values, expected->count,
          largest(expected->values, expected->count), 1);
    free(values);
}

static const SafetensorsEntry *gradient_part(const char *name, const char *part) {
    char *key = xprintf("grad.%s%s", name, part);
    const SafetensorsEntry *entry = safetensors_find(&reference, key);
    free(key);
    return entry;
}

// Ours is the gradient of the sum of the losses, PyTorch's that of their mean. The bias of a
// convolution before a batch norm has the gradient 0: there, rounding is all there is, so its scale
// is that of the weight's gradient.
static void check_gradient(const Parameter *p, const Parameter *before, Device *device) {
    const SafetensorsEntry *whole = gradient_part(p->name, "");
    const SafetensorsEntry *index = whole ? NULL : gradient_part(p->name, ".index");
    const SafetensorsEntry *some = whole ? whole : gradient_part(p->name, ".value");
    const SafetensorsEntry *norm = gradient_part(p->name, ".norm");
    assert_true(some && norm && (whole || index->integers || index->values));
    const Tensor *grad = parameter_data(p, device)->grad;
    float *ours = tensor_values(grad);
    double squares = 0, weight_norm = 0;
    for (size_t i = 0; i < numel(grad); i++) squares += (double)ours[i] * (double)ours[i];
    if (ends_with(p->name, "bias"))
        weight_norm = (double)gradient_part(before->name, ".norm")->values[0];
    double scale = fmax((double)norm->values[0], weight_norm);
    if (!(fabs(sqrt(squares) / ROWS - (double)norm->values[0]) <= 1e-4 * scale))
        fail_msg("the gradient of %s has norm %g, PyTorch's %g", p->name, sqrt(squares) / ROWS,
                 norm->values[0]);
    for (size_t i = 0; i < some->count; i++) {
        size_t at = whole ? i : (size_t)index->values[i];
        check(some->name, &ours[at], &some->values[i], 1, scale, 1.0 / ROWS);
    }
    free(ours);
}

static void test_one_step(void **state) {
    Device *device = device_under_test(state);
    Module *net = reference_net();
    Tensor *X, *y;
    reference_batch(&X, &y);
    Tensor *X_here = tensor_to(X, device), *y_here = tensor_to(y, device);
    set_training(net, false);
    begin_step(device);
    check_tensor(forward(net, X_here), part("eval.", "logits"));

    set_training(net, true);
    begin_step(device);
    Tensor *logits = forward(net, X_here), *loss = sum(cross_entropy(logits, y_here));
    backward(loss);
    check_tensor(logits, part("logits", ""));
    float total = item(loss);
    check("the mean loss", &total, part("loss", "")->values, 1, 1, 1.0 / ROWS);
    Parameters all = parameters_of(net);
    int trained = 0;
    for (int p = 0; p < all.n; p++) {
        const Parameter *parameter = all.list[p];
        if (parameter->trained) {
            check_gradient(parameter, all.list[p ? p - 1 : 0], device);
            trained++;
        } else {
            check_tensor(parameter_data(parameter, device), part("after.", parameter->name));
        }
    }
    assert_int_equal(trained, 76);
    tensor_free(X);
    tensor_free(y);
    tensor_free(X_here);
    tensor_free(y_here);
    module_free(net);
}

// What --save writes has the names, shapes and types of PyTorch's state_dict, and no others.
static void test_saved_names(void **state) {
    (void)state;
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    place_on(net, try_gpu(0));
    save_parameters(net, try_gpu(0), in_test_folder("resnet18.safetensors"));
    SafetensorsFile file = safetensors_open(in_test_folder("resnet18.safetensors"));
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

// ---- k devices against one --------------------------------------------------------------------

// All parameters and buffers of device i, one behind the other; free() them.
static float *values_on(const DataParallel *dp, int i, size_t *n) {
    Parameters all = parameters_of(dp->net);
    *n = 0;
    for (int p = 0; p < all.n; p++) *n += numel(all.list[p]->start);
    float *values = xmalloc(sizeof(float) * *n), *next = values;
    for (int p = 0; p < all.n; p++) {
        tensor_read(parameter_data(all.list[p], dp->devices[i]), next);
        next += numel(all.list[p]->start);
    }
    return values;
}

// Two steps on k devices; the loss of the second.
static double two_steps(DataParallel *dp, const Tensor *X, const Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    double loss = 0;
    for (int step = 0; step < 2; step++) {
        ledger_reset();
        train_step(dp, X, y, 0.02f, losses);
        loss = 0;
        for (int i = 0; i < dp->k; i++) loss += (double)item(losses[i]);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), step_bytes(dp));
    }
    return loss;
}

// The parameters after two steps: of `one`, and of each replica of `dp`.
static void check_sync(int k) {
    Device *devices[MAX_DEVICES];
    Tensor *X, *y;
    size_t n;
    reference_batch(&X, &y);
    open_devices(devices, k);
    Module *net = reference_net();
    DataParallel one = data_parallel(net, devices, 1, BN_SYNC);
    double loss = two_steps(&one, X, y);
    float *expected = values_on(&one, 0, &n);
    module_free(net);

    net = reference_net();
    DataParallel dp = data_parallel(net, devices, k, BN_SYNC);
    double loss_k = two_steps(&dp, X, y);
    if (!(fabs(loss_k - loss) <= 1e-4 * fabs(loss)))
        fail_msg("k = %d: the loss is %g, on one device %g", k, loss_k, loss);
    float *first = values_on(&dp, 0, &n);
    for (size_t j = 0; j < n; j++)
        if (!(fabs((double)first[j] - (double)expected[j]) <= 1e-4))
            fail_msg("k = %d: value %zu is %g, on one device %g", k, j, first[j], expected[j]);
    for (int i = 1; i < k; i++) {
        float *other = values_on(&dp, i, &n);
        assert_memory_equal(first, other, sizeof(float) * n);
        free(other);
    }
    ledger_reset();
    share_statistics(&dp); // they are equal
    assert_int_equal(ledger_bytes_between_devices(), 0);
    free(first);
    free(expected);
    module_free(net);
    tensor_free(X);
    tensor_free(y);
}

static void test_sync_is_one_device(void **state) {
    (void)state;
    check_sync(3);
    if (!SANITIZED) check_sync(2);
}

// Shards of other sizes, none among them, change nothing but rounding, if batch norm is
// synchronised (exercise 05-2).
static void test_unequal_shards(void **state) {
    (void)state;
    static const Range shards[2][3] = {{{0, 2}, {2, 1}, {3, ROWS - 3}},
                                       {{0, 1}, {1, 0}, {1, ROWS - 1}}};
    float *values[2];
    double loss[2] = {0};
    size_t n;
    Device *devices[MAX_DEVICES];
    Tensor *X, *y, *losses[MAX_DEVICES];
    reference_batch(&X, &y);
    open_devices(devices, 3);
    for (int way = 0; way < 2; way++) {
        Module *net = reference_net();
        DataParallel dp = data_parallel(net, devices, 3, BN_SYNC);
        train_step_as(&dp, shards[way], X, y, 0.1f, losses);
        for (int i = 0; i < 3; i++) loss[way] += (double)item(losses[i]);
        values[way] = values_on(&dp, 2, &n);
        module_free(net);
    }
    assert_true(fabs(loss[1] - loss[0]) <= 1e-4 * loss[0]);
    for (size_t j = 0; j < n; j++)
        assert_true(fabs((double)values[1][j] - (double)values[0][j]) <= 1e-4);
    free(values[0]);
    free(values[1]);
    tensor_free(X);
    tensor_free(y);
}

// A host that does not wait between steps gets the bits of one that does (exercise 05-3).
static void test_no_waiting(void **state) {
    (void)state;
    float *values[2];
    size_t n;
    Device *devices[MAX_DEVICES];
    Tensor *X, *y, *losses[MAX_DEVICES];
    reference_batch(&X, &y);
    open_devices(devices, 3);
    for (int waits = 0; waits < 2; waits++) {
        Module *net = Sequential(Conv2d(1, 3, .kernel_size = 5), BatchNorm2d(3), ReLU(),
                                 AdaptiveAvgPool2d(2, 2), Flatten(), Linear(12, 10));
        initialize(net, 1);
        DataParallel dp = data_parallel(net, devices, 3, BN_AVERAGED);
        for (int step = 0; step < 10; step++) {
            train_step(&dp, X, y, 0.1f, losses);
            if (waits) synchronize_all();
        }
        values[waits] = values_on(&dp, 2, &n);
        module_free(net);
    }
    assert_memory_equal(values[0], values[1], n * sizeof(float));
    free(values[0]);
    free(values[1]);
    tensor_free(X);
    tensor_free(y);
}

// The means of device i's batch norm of this name.
static float *statistics(const DataParallel *dp, int i, const char *name) {
    return tensor_values(parameter_data(find_parameter(dp->net, name), dp->devices[i]));
}

// What share_statistics() does to two replicas whose statistics differ.
static void test_sharing_statistics(void **state) {
    (void)state;
    static const char name[] = "resnet_block2.0.bn1.running_var";
    for (BatchNormMode mode = BN_LOCAL; mode <= BN_AVERAGED; mode++) {
        Device *devices[2];
        Tensor *X, *y;
        open_devices(devices, 2);
        reference_batch(&X, &y);
        Module *net = reference_net();
        DataParallel dp = data_parallel(net, devices, 2, mode);
        two_steps(&dp, X, y);
        float *a = statistics(&dp, 0, name), *b = statistics(&dp, 1, name);
        double apart = 0;
        for (int c = 0; c < 128; c++) apart = fmax(apart, fabs((double)(a[c] - b[c])));
        assert_true(apart > 1e-3);
        ledger_reset();
        share_statistics(&dp);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), statistics_bytes(&dp));
        for (int i = 0; i < 2; i++) {
            float *after = statistics(&dp, i, name);
            for (int c = 0; c < 128; c++) {
                double expected = mode == BN_AVERAGED ? ((double)a[c] + (double)b[c]) / 2
                                  : mode == BN_RANK0  ? (double)a[c]
                                                      : (double)(i ? b : a)[c];
                assert_true(fabs((double)after[c] - expected) <= 1e-6 * fabs(expected));
            }
            free(after);
        }
        free(a);
        free(b);
        module_free(net);
        tensor_free(X);
        tensor_free(y);
    }
}

// Counts are whole numbers, so k devices find the accuracy of one exactly (given one start).
static void test_evaluation(void **state) {
    (void)state;
    Dataset *data = fashion_mnist_open(NULL, false, 33);
    DataIter *iter = data_iter_new(data, 16, false, 0); // the last minibatch has one image
    double accuracy[4];
    for (int k = 1; k <= 3; k++) {
        Device *devices[3];
        open_devices(devices, k);
        Module *net = reference_net();
        DataParallel dp = data_parallel(net, devices, k, BN_AVERAGED);
        accuracy[k] = evaluate_accuracy_gpus(&dp, iter);
        module_free(net);
    }
    assert_true(accuracy[1] >= 0 && accuracy[1] <= 1);
    assert_true(accuracy[2] == accuracy[1] && accuracy[3] == accuracy[1]);
    data_iter_free(iter);
    dataset_free(data);
}

// The step after a checkpoint has the bits of the step without.
static void check_checkpoint(BatchNormMode mode) {
    Device *devices[2];
    Tensor *X, *y;
    size_t n;
    open_devices(devices, 2);
    reference_batch(&X, &y);
    Module *net = reference_net();
    DataParallel dp = data_parallel(net, devices, 2, mode);
    two_steps(&dp, X, y);
    const char *path = in_test_folder("checkpoint.safetensors");
    share_statistics(&dp);
    Checkpoint saved = {.run = 1, .epoch = 2, .step = 3, .loss = (char *)"0.5"};
    saved.settings = (char *)"these settings";
    saved.length = (char *)"--epochs 3";
    saved.history = (char *)"1,1,0.5,0.5,1\n";
    saved.start = FROM_SEED;
    checkpoint_save(path, &saved, NULL, &dp);
    two_steps(&dp, X, y);
    float *expected[2] = {values_on(&dp, 0, &n), values_on(&dp, 1, &n)};
    module_free(net);

    net = resnet18(10, 1);
    initialize(net, 99);
    dp = data_parallel(net, devices, 2, mode);
    Checkpoint checkpoint = checkpoint_open(path);
    assert_int_equal(checkpoint.run, 1);
    assert_int_equal(checkpoint.epoch, 2);
    assert_int_equal(checkpoint.step, 3);
    assert_string_equal(checkpoint.loss, "0.5");
    assert_string_equal(checkpoint.settings, "these settings");
    assert_string_equal(checkpoint.length, "--epochs 3");
    assert_string_equal(checkpoint.history, "1,1,0.5,0.5,1\n");
    checkpoint_close(&checkpoint);
    checkpoint_load(path, &dp);
    two_steps(&dp, X, y);
    for (int i = 0; i < 2; i++) {
        float *values = values_on(&dp, i, &n);
        assert_memory_equal(values, expected[i], sizeof(float) * n);
        free(values);
        free(expected[i]);
    }
    Counts counts = counts_of(net);
    assert_int_equal(counts.list[0].value, 4);
    free_counts(&counts);
    module_free(net);
    tensor_free(X);
    tensor_free(y);
}

static void test_checkpoint(void **state) {
    (void)state;
    check_checkpoint(BN_LOCAL);
    if (!SANITIZED) check_checkpoint(BN_AVERAGED);
}

static void open_as_checkpoint(void *path) {
    Checkpoint checkpoint = checkpoint_open(path);
    checkpoint_close(&checkpoint);
}

static void test_no_checkpoint(void **state) {
    (void)state;
    expect_death(1, "is no checkpoint", open_as_checkpoint,
                 (void *)in_test_folder("resnet18.safetensors"));
}

// Memory of one device in training at batch 64: parameters, gradients, activations and theirs.
static void test_memory(void **state) {
    (void)state;
    autograd_close(); // what the tests before needed
    Device *device = try_gpu(0);
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, &device, 1, BN_LOCAL);
    Tensor *X = tensor_new(host(), 64, 1, 28, 28), *y = tensor_new(host(), 64), *losses[1];
    tensor_fill(X, 0.5f);
    tensor_fill(y, 1);
    size_t before = device_bytes(device);
    train_step(&dp, X, y, 0.01f, losses);
    synchronize(device);
    assert_true(before >= 2 * parameter_bytes(net));
    size_t most = num_gpus() > 0 ? 800 : 500; // MB; a GPU's has scratch memory too
    assert_true(device_bytes(device) < most * 1000 * 1000);
    tensor_free(X);
    tensor_free(y);
    module_free(net);
}

// ---- main -------------------------------------------------------------------------------------

static int setup(void **state) {
    reference = safetensors_open("tests/reference/resnet18.safetensors");
    return make_test_folder(state);
}

static int teardown(void **state) {
    safetensors_close(&reference);
    return remove_test_folder(state);
}

int main(int argc, char *argv[]) {
    (void)argc;
    set_program_name(argv[0]);
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_one_step),
        UNLESS_SIMULATED(test_saved_names),
        UNLESS_SIMULATED(test_sync_is_one_device),
        UNLESS_SIMULATED(test_unequal_shards),
        UNLESS_SIMULATED(test_no_waiting),
        UNLESS_SIMULATED(test_sharing_statistics),
        UNLESS_SIMULATED(test_evaluation),
        UNLESS_SIMULATED(test_checkpoint),
        UNLESS_SIMULATED(test_no_checkpoint),
        UNLESS_SIMULATED(test_memory),
    };
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    devices_close();
    return failed;
}
