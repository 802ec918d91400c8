// print.c: how large the runs are, what is printed of them, and where the parameters are.
#include "behind.h"

#include "common/book.h"
#include "common/base/number.h"
#include "common/model/modelled_clock.h"

// 0 images: all.
typedef struct Size {
    int train, test, epochs, batch;
    float lr;
} Size;

// d2l's runs; small ones for a few minutes on two cores; and --quick's, for a class. With so few
// images, small minibatches are needed: they mean more updates.
static const Size full_size = {.epochs = 10, .batch = 256, .lr = 0.1f};
static const Size small_size = {2048, 1000, 5, 16, 0.025f};
static const Size quick_size = {256, 100, 2, 4, 0.02f};
static const Size model_size = {.epochs = 1, .batch = 256, .lr = 0.1f}; // all epochs are the same
static const Size experiment_size = {4096, 2000, 5, 32, 0.1f};

static const Size *size_of(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    if (nb->experiment) return &experiment_size;
    if (flags->backend == BACKEND_MODEL) return &model_size;
    if (flags->quick) return &quick_size;
    return nb->full || num_gpus() > 0 ? &full_size : &small_size;
}

void choose_size(Notebook *nb) {
    Flags *flags = &nb->flags;
    const Size *size = size_of(nb);
    if (flags->quick && nb->full) die_usage("give one of them", "--quick and --full");
    if (flags->quick && nb->experiment)
        die_usage("leave one of them out", "--quick and --experiment: shorter runs, or fewer, "
                                           "cannot be told from chance");
    if (flags->batch_size == 0) flags->batch_size = size->batch;
    if (flags->lr < 0) flags->lr = size->lr;
    if (flags->epochs == 0) flags->epochs = size->epochs;
    if (flags->train_size == 0) flags->train_size = size->train;
    if (flags->test_size == 0) flags->test_size = size->test;
}

void print_size(const Notebook *nb) {
    const Flags *flags = &nb->flags;
    if (flags->backend == BACKEND_MODEL)
        say("%smodel: nothing is computed; times are those of %s",
            flags->quick ? "quick: nothing is left out; " : "", modelled_machine()->name);
    else if (size_of(nb) != &full_size)
        say("quick: %d of 60000 images, %d of 10000 test images; --full is the full run",
            nb->train_data->count, nb->test_data->count);
    long trained = (long)(parameter_bytes(nb->net) / sizeof(float));
    printf("ResNet-18: %s parameters (%.1f MB); %.1f KB of running statistics\n",
           grouped((uint64_t)trained).text, (double)parameter_bytes(nb->net) / 1e6,
           (double)buffer_bytes(nb->net) / 1e3);
}

void print_training(const Run *run, const char *bn) {
    printf("training on %s: batch size %d, lr %g", device_names(run->dp.devices, run->dp.k),
           run->batch_size, (double)run->lr);
    printf(run->dp.k > 1 ? ", batch norm's statistics: %s\n" : "\n", bn);
}

void print_step_bytes(const Run *run) {
    printf("Bytes: each step moved %s between the devices, as the formulas say\n",
           grouped(run->bytes_per_step).text);
}

static void ask_the_host(void *weight) { parameter_data(weight, host()); }

void show_where_parameters_are(Module *net) {
    Device *devices[2];
    open_devices(devices, 2);
    for (int i = 0; i < 2; i++) {
        begin_step(devices[i]);
        Tensor *X = tensor_new(devices[i], 2, 1, 28, 28), *y_hat; // two images
        tensor_fill(X, 1);
        forward_all(net, &X, 1, &y_hat);
        Tensor *first = tensor_slice(flat_parameters(net, devices[i]).data, 0, 1, (int[]){3});
        tensor_print("first weights", first);
        tensor_free(first);
        tensor_free(X);
    }
    int status = try_in_child(ask_the_host, find_parameter(net, "0.weight"));
    CHECK(status == EXIT_FAILURE, "parameters exist only on devices that data went through");
}
