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
#include "common/data/fashion_mnist.h"
#include "common/tensor/functional.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "figures.h"

#define FOLDER "tests/reference/"

// Units of rounding: float32 has 24 bits, 2^-24 = 6e-8.
#define EXACT    0    // a choice between inputs: relu
#define ROUNDED  3e-7 // a few operations per element
#define SUMMED   1e-5 // long sums, and exp and log
#define WINOGRAD 5e-5 // the same by Winograd's method: kernels/cpu/fast/convolution.h
#define TRAINED  1e-4 // a loss after up to 100 updates

static SafetensorsFile ops, start; // and `reference`: losses
static Device *devices[2];
static int num_devices;
static Dataset *images;

// ---- comparing -------------------------------------------------------------------------------

// Of no file: NULL, if there is none of that name.
static const SafetensorsEntry *find(const SafetensorsFile *file, const char *a, const char *b) {
    char *key = xprintf("%s%s", a, b);
    const SafetensorsEntry *entry = safetensors_find(file, key);
    free(key);
    return entry;
}

static const SafetensorsEntry *needed(const SafetensorsEntry *entry) {
    if (!entry) fail_msg("a reference figure is missing: run make_reference.py again");
    return entry;
}

static double rms(const SafetensorsEntry *expected) {
    double squares = 0;
    for (size_t i = 0; i < expected->count; i++)
        squares += (double)expected->values[i] * expected->values[i];
    return sqrt(squares / (double)(expected->count ? expected->count : 1));
}

static void check_tensor(const Tensor *t, const SafetensorsEntry *expected, double tolerance) {
    assert_int_equal(t->ndim, needed(expected)->ndim);
    assert_memory_equal(t->shape, expected->shape, sizeof(int) * (size_t)t->ndim);
    double scale = rms(expected);
    float *ours = values_of(t);
    for (size_t i = 0; i < expected->count; i++)
        check(expected->name, i, ours[i], expected->values[i],
              tolerance * fmax(fabs(expected->values[i]), scale));
}

static Tensor *tensor_from(Device *device, const SafetensorsEntry *entry) {
    Tensor *t = keep(tensor_of_shape(device, needed(entry)->ndim, entry->shape));
    tensor_write(t, entry->values);
    return t;
}

// ---- one case of one operation ---------------------------------------------------------------

enum { MAX_IN = 3 };

static struct Operation {
    const char *name, *inputs[MAX_IN];
    double tolerance, tolerances[MAX_IN]; // of the output, and of the inputs' gradients
    Tensor *(*compute)(Tensor *a, Tensor *b, Tensor *c, const int options[4]);
} operations[16];
static size_t num_operations;

// A row: the operation's name, what is computed from its inputs a, b and c with PyTorch's options,
// and how close; then each input's name and how close its gradient. (Labels, "y", have none.)
#define OPERATION(NAME, OUTPUT, TOLERANCE, A, DA, B, DB, C, DC)                                    \
    static Tensor *compute_##NAME(Tensor *a, Tensor *b, Tensor *c, const int o[4]) {               \
        (void)a, (void)b, (void)c, (void)o;                                                        \
        return OUTPUT;                                                                             \
    }                                                                                              \
    AT_START(operations[num_operations++] =                                                        \
                 (struct Operation){#NAME, {A, B, C}, TOLERANCE, {DA, DB, DC}, compute_##NAME})

// clang-format off
OPERATION(conv2d, conv2d(a, b, c, .stride_hw = {o[0], o[1]}, .padding_hw = {o[2], o[3]}), SUMMED,
          "X", SUMMED, "W", SUMMED, "b", SUMMED)
OPERATION(lenet_conv, conv2d(a, b, c), WINOGRAD, "X", WINOGRAD, "W", WINOGRAD, "b", SUMMED)
OPERATION(avg_pool2d, avg_pool2d(a, .kernel_hw = {o[0], o[1]}, .stride_hw = {o[2], o[3]}), ROUNDED,
          "X", ROUNDED, NULL, 0, NULL, 0)
OPERATION(relu, relu(a), EXACT, "X", EXACT, NULL, 0, NULL, 0)
OPERATION(mm, mm(a, b), SUMMED, "A", SUMMED, "B", SUMMED, NULL, 0)
OPERATION(add_bias, add_bias(a, b), ROUNDED, "X", EXACT, "b", SUMMED, NULL, 0)
OPERATION(linear, linear(a, b, c), SUMMED, "X", SUMMED, "W", SUMMED, "b", SUMMED)
OPERATION(cross_entropy, cross_entropy(a, b), SUMMED, "X", SUMMED, "y", 0, NULL, 0)
OPERATION(sum, sum(a), SUMMED, "X", EXACT, NULL, 0, NULL, 0)
// clang-format on

// Inputs are parameters in one run, whose gradients are added to what is there (zero), and
// activations in another, whose first gradient overwrites whatever the arena held.
static Tensor *input_from(Device *device, bool activation, const SafetensorsEntry *entry) {
    if (!activation) return trained(tensor_from(device, entry));
    Tensor *t = arena_tensor(device, entry->ndim, entry->shape, true);
    tensor_write(t, entry->values);
    tensor_fill(t->grad, NAN);
    return t;
}

// The case's name is "conv2d.3."
static void check_case(const struct Operation *op, const char *name, Device *device,
                       bool activations) {
    Tensor *in[MAX_IN] = {NULL};
    int options[4] = {0};
    const SafetensorsEntry *given = find(&ops, name, "options"), *Y = find(&ops, name, "Y"), *dY;
    for (size_t i = 0; given && i < given->count; i++) options[i] = (int)given->values[i];
    begin_step(device);
    for (int i = 0; i < MAX_IN && op->inputs[i]; i++) {
        const SafetensorsEntry *entry = find(&ops, name, op->inputs[i]);
        // LeNet's two convolutions take their weights from the start, to keep the file small.
        if (!entry && op->compute == compute_lenet_conv)
            entry = find(&start, strstr(name, ".0.") ? "W1" : "W2", "");
        if (!entry) assert_string_equal(op->inputs[i], "b"); // all else must be there
        if (entry)
            in[i] = strcmp(op->inputs[i], "y") == 0 ? tensor_from(device, entry)
                                                    : input_from(device, activations, entry);
    }
    Tensor *ours = op->compute(in[0], in[1], in[2], options);
    check_tensor(ours, Y, op->tolerance);
    dY = find(&ops, name, "dY");
    backward_from(ours, tensor_from(device, dY ? dY : Y));
    char *gradient = xprintf("%sd", name);
    for (int i = 0; i < MAX_IN; i++)
        if (in[i] && in[i]->grad)
            check_tensor(in[i]->grad, find(&ops, gradient, op->inputs[i]), op->tolerances[i]);
    free(gradient);
}

// Whether there is such a case; "conv2d.3." into `name`.
static bool find_case(const char *operation, int number, char name[32]) {
    snprintf(name, 32, "%s.%d.", operation, number);
    return find(&ops, name, "Y");
}

// All cases of an operation, on all devices, with both kinds of inputs.
TEST(test_operations) {
    char name[32];
    assert_true(num_operations > 0 && num_operations <= COUNT(operations));
    for (size_t i = 0; i < num_operations; i++)
        for (int run = 0, number = 0; run < 2 * num_devices; run++, number = 0) {
            for (; find_case(operations[i].name, number, name); number++)
                check_case(&operations[i], name, devices[run / 2], run % 2);
            assert_true(number > 0); // a file without cases must not pass
        }
}

TEST(test_sgd) {
    char name[32];
    for (int run = 0, number = 0; run < num_devices; run++, number = 0) {
        for (; find_case("sgd", number, name); number++) {
            const float *options = needed(find(&ops, name, "options"))->values;
            Tensor *param = trained(tensor_from(devices[run], find(&ops, name, "param")));
            tensor_copy(param->grad, tensor_from(devices[run], find(&ops, name, "grad")));
            sgd(&param, 1, options[0], (int)options[1]);
            check_tensor(param, find(&ops, name, "Y"), ROUNDED);
            float *grad = values_of(param->grad);
            for (size_t i = 0; i < numel(param); i++) assert_true(grad[i] == 0);
        }
        assert_true(number > 0);
    }
}

// ---- LeNet: the first step, and 100 of them --------------------------------------------------

static void params_at_start(Device *device, Tensor *params[LENET_PARAMS]) {
    static const char *const names[] = {"W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"};
    for (int i = 0; i < LENET_PARAMS; i++) {
        params[i] = trained(tensor_from(device, find(&start, names[i], "")));
        params[i]->name = names[i];
    }
}

typedef Tensor *Lenet(Tensor *X, Tensor *const params[]);

static void check_lenet_step(Lenet *net, Device *device) {
    Tensor *host_X, *host_y, *params[LENET_PARAMS];
    DataIter *iter = data_iter_new(images, 32, false, 0); // in the order of the file
    params_at_start(device, params);
    data_iter_start(iter, 0);
    assert_true(data_iter_next(iter, &host_X, &host_y));
    Tensor *X = keep(tensor_to(host_X, device)), *y = keep(tensor_to(host_y, device));
    begin_step(device);
    Tensor *loss = sum(cross_entropy(net(X, params), y));
    backward(loss);
    check_tensor(loss, part("step.loss"), SUMMED);
    for (int i = 0; i < LENET_PARAMS; i++) {
        double norm = part("step.d%s.norm", params[i]->name)->values[0];
        double rms = norm / sqrt((double)numel(params[i]));
        check_gradient("step.d", params[i]->grad, params[i]->name, 1, SUMMED, SUMMED * rms);
    }
    data_iter_free(iter);
}

TEST(test_lenet_step) {
    for (int d = 0; d < num_devices; d++) {
        check_lenet_step(lenet_by_the_book, devices[d]);
        check_lenet_step(lenet, devices[d]);
    }
}

// The same start and the same minibatches must give PyTorch's losses, all along the way.
TEST_UNLESS_SIMULATED(test_lenet_losses) {
    const SafetensorsEntry *expected = part("losses");
    float lr = part("lr")->values[0];
    int batches = (int)expected->count, batch_size = 256;
    for (int d = 0; d < num_devices; d++) {
        Tensor *X, *y, *loss, *device_params[1][LENET_PARAMS];
        DataIter *iter = data_iter_new(images, batch_size, false, 0);
        data_iter_start(iter, 0);
        params_at_start(devices[d], device_params[0]);
        for (int i = 0; i < batches; i++) {
            assert_true(data_iter_next(iter, &X, &y));
            train_batch(X, y, device_params, &devices[d], 1, lr, &loss);
            double ours = item(loss) / batch_size, theirs = expected->values[i];
            check("mean loss of minibatch", (size_t)i, ours, theirs, TRAINED * theirs);
        }
        data_iter_free(iter);
    }
}

// ---- main ------------------------------------------------------------------------------------

static int setup(void **state) {
    (void)state;
    ops = safetensors_open(FOLDER "ops.safetensors");
    start = safetensors_open(FOLDER "lenet.safetensors");
    reference = safetensors_open(FOLDER "lenet_losses.safetensors");
    images = fashion_mnist_open(NULL, true, SIMULATED && num_gpus() > 0 ? 32 : 100 * 256);
    devices[num_devices++] = try_gpu(0);
    if (cpu_device(0) != devices[0]) devices[num_devices++] = cpu_device(0);
    return 0;
}

static int teardown(void **state) {
    dataset_free(images);
    safetensors_close(&ops);
    safetensors_close(&start);
    return close_reference(state);
}

int main(void) { return run_all("reference", setup, teardown); }
