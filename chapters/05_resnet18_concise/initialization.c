// initialization.c: as data goes through the network, it is initialized on the devices where the
// data is, and only there.
#include "initialization.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "common/tensor/random.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void split_four_observations(Module *net, uint64_t seed, Device *const devices[],
                                    Tensor *y_hat[]) {
    Tensor *X = tensor_new(host(), 4, 1, 28, 28), *y = tensor_new(host(), 4);
    Tensor *X_shards[2], *y_shards[2];
    for (size_t i = 0; i < numel(X); i++) X->data[i] = (float)random_uniform(seed, STREAM_TEST, i);
    tensor_fill(y, 0);
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(X, y, devices, 2, X_shards, y_shards);
    forward_all(net, X_shards, 2, y_hat);
    synchronize_all();
    tensor_free(X);
    tensor_free(y);
}

// In a child process, as the answer is an error.
static void ask_the_host(void *weight) { parameter_data(weight, host()); }

// (Their weights are of about 0.01, so the scores are tiny.)
static void print_scores(Tensor *const y_hat[]) {
    for (int i = 0; i < 2; i++) {
        float *scores = tensor_values(y_hat[i]);
        int classes = y_hat[i]->shape[1];
        for (int n = 0; n < (int)numel(y_hat[i]); n++) {
            if (n % classes == 0) printf(n == 0 ? "  y_hat[%d]: [" : "            [", i);
            printf("%6.2f%s", 1e6 * (double)scores[n], (n + 1) % classes ? "," : " ]\n");
        }
        free(scores);
    }
}

static void print_filter(const Parameter *weight, const Device *device) {
    float *values = tensor_values(parameter_data(weight, device));
    printf("    [");
    for (int i = 0; i < 9; i++) printf("%s%8.5f", i % 3 ? ", " : i ? "; " : "", (double)values[i]);
    printf("] on %s\n", device_name(device));
    free(values);
}

static void print_filters(const Parameter *weight, Device *const devices[]) {
    say("The first filter of 0.weight, the same on both devices, a row after the other:");
    for (int i = 0; i < 2; i++) print_filter(weight, devices[i]);
}

static void check_equal(const Parameter *weight, Device *const devices[]) {
    float *first = tensor_values(parameter_data(weight, devices[0]));
    float *second = tensor_values(parameter_data(weight, devices[1]));
    CHECK(memcmp(first, second, tensor_bytes(weight->start)) == 0,
          "all devices start from the same parameters");
    free(first);
    free(second);
}

// A stated machine may have one device only.
static bool there_are_two(void) {
    const Machine *machine = modelled_machine();
    if (!machine || machine_has_devices(machine, 2)) return true;
    say("\n(%s has one device: nothing to show on two.)\n", machine->name);
    return false;
}

void demonstrate_initialization(Module *net, uint64_t seed) {
    Device *devices[2];
    if (!there_are_two()) return;
    open_devices(devices, 2);
    Tensor *y_hat[2];
    Parameter *weight = find_parameter(net, "0.weight");
    set_training(net, false);
    set_grad_enabled(false);
    split_four_observations(net, seed, devices, y_hat);
    set_grad_enabled(true);
    set_training(net, true);
    bool values = has_values(devices[0]);
    say("\nFour observations, two on each of %s: scores%s", device_names(devices, 2),
        values ? " (in millionths)" : " and filters there are none, as nothing is computed.");
    if (values) print_scores(y_hat);
    say("The host holds only the start, from which devices make their parameters. Asked for "
        "its 0.weight all the same, in a child process:");
    int status = try_in_child(ask_the_host, weight);
    CHECK(status == EXIT_FAILURE, "parameters can be had only on devices that data went through");
    say("  The child process ended with an error (on stderr), as it should.");
    if (values) print_filters(weight, devices);
    if (values) check_equal(weight, devices);
    printf("\n");
}
