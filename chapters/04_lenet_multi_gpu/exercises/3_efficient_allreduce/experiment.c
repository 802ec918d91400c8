// experiment.c: five ways to sum the gradients of LeNet, from the book's star to chapter 2's: the
// bytes that each device receives, and how long an allreduce and a training step would take on
// three machines. Here all devices share one memory, and what one way saves against another is less
// than the noise of a measurement; so all times are modelled.
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"
#include "your_part.h"

#include <math.h>
#include <string.h>

// ## The methods

// Sums parameter number p of LeNet over k devices.
typedef void Method(Tensor *const data[], int k, int p);

static void star(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_at(data, k, 0);
}

static void at_p_mod_k(Tensor *const data[], int k, int p) { allreduce_at(data, k, p % k); }

// Biggest first, to the devices in turn: W3 W2 W4 W1 b3 b2 b1 b4.
static void largest_first(Tensor *const data[], int k, int p) {
    static const int place[LENET_PARAMS] = {3, 6, 1, 5, 0, 4, 2, 7};
    allreduce_at(data, k, place[p] % k);
}

static void in_parts(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_parts(data, k);
}

static void chapter_2(Tensor *const data[], int k, int p) {
    (void)p;
    allreduce_sharded(data, k);
}

enum { STAR, P_MOD_K, LARGEST_FIRST, PARTS, CHAPTER_2, NUM_METHODS };
static const struct {
    const char *name;
    Method *run;
} methods[NUM_METHODS] = {[STAR] = {"star (the book's)", star},
                          [P_MOD_K] = {"parameter p on p mod k", at_p_mod_k},
                          [LARGEST_FIRST] = {"largest first", largest_first},
                          [PARTS] = {"k parts each", in_parts},
                          [CHAPTER_2] = {"chapter 2, sharded", chapter_2}};

// ## The machines

// Links of three kinds. --machine adds one.
enum { MOST_MACHINES = 4 };
static const char *const built_in[] = {"dgx-a100", "rtx4090-pcie", "laptops-1gbe"};

typedef struct Machines {
    const Machine *machine[MOST_MACHINES];
    int count;
} Machines;

static void add_machine(Machines *machines, const char *name, int k) {
    const Machine *machine = machine_find(name);
    for (int i = 0; i < machines->count; i++)
        if (machines->machine[i] == machine) return;
    if (machine_has_devices(machine, k))
        machines->machine[machines->count++] = machine;
    else
        say("%s is left out: it cannot have %d devices.", name, k);
}

static Machines machines_with(int k, const char *chosen) {
    Machines machines = {0};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        add_machine(&machines, built_in[i], k);
    if (strcmp(chosen, "none") != 0) add_machine(&machines, chosen, k);
    return machines;
}

static const char *links_of(const Machine *machine, int k) {
    if (k > machine->devices) return "a network";
    switch (machine->links) {
    case LINKS_TREE:
        return "PCIe";
    case LINKS_HOST:
        return "PCIe, by way of the host";
    default:
        return "NVLink";
    }
}

// ## What is modelled

// Milliseconds.
typedef struct Times {
    double gradients; // one allreduce of all parameters of LeNet
    double step;      // a training step
    double large;     // one allreduce of a large vector
} Times;

typedef struct Figures {
    double received[MAX_DEVICES], busiest; // bytes; each device sends as much as it receives
    Times on[MOST_MACHINES];
} Figures;

// A vector of 16 MB, with which the number of bytes counts for more than the number of copies.
enum { LARGE = 4 << 20 };

// What all methods work on: replicas, a minibatch, and a large vector on each device.
typedef struct Setting {
    Replicas r;
    Tensor *X, *y, *large[MAX_DEVICES];
} Setting;

static Setting setting_new(int k, int batch_size) {
    Setting s = {.X = tensor_new(host(), batch_size, 1, 28, 28),
                 .y = tensor_new(host(), batch_size)};
    replicas_open_modelled(&s.r, k);
    for (int i = 0; i < k; i++) s.large[i] = tensor_new(s.r.devices[i], LARGE);
    return s;
}

static void setting_free(Setting *s) {
    for (int i = 0; i < s->r.k; i++) tensor_free(s->large[i]);
    tensor_free(s->X);
    tensor_free(s->y);
    replicas_close(&s->r);
}

static void begin_steps(const Replicas *r) {
    for (int i = 0; i < r->k; i++) begin_step(r->devices[i]);
}

static void sum_gradients(Replicas *r, Method *method) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < r->k; i++) grads[i] = r->params[i][p]->grad;
        method(grads, r->k, p);
    }
}

// train_batch() of chapter 4, with another allreduce in it.
static void train_step(Setting *s, Method *method) {
    Replicas *r = &s->r;
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    begin_steps(r);
    split_batch(s->X, s->y, r->devices, r->k, X_shards, y_shards);
    for (int i = 0; i < r->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], r->params[i]), y_shards[i]));
    for (int i = 0; i < r->k; i++) backward(losses[i]);
    sum_gradients(r, method);
    for (int i = 0; i < r->k; i++) sgd(r->params[i], LENET_PARAMS, 0, s->X->shape[0]);
}

static void count_bytes(Setting *s, Method *method, Figures *f) {
    Replicas *r = &s->r;
    begin_steps(r);
    ledger_reset();
    sum_gradients(r, method);
    synchronize_all();
    for (int i = 0; i < r->k; i++) { f->received[i] = (double)bytes_received(r->devices, r->k, i); }
    f->busiest = maximum(f->received, r->k);
}

static double ms_since(double started) {
    synchronize_all();
    return 1e3 * (modelled_seconds() - started);
}

// Modelled times are the same each time, so once is enough.
static Times time_method(Setting *s, Method *method) {
    Times times;
    begin_steps(&s->r);
    double started = modelled_seconds();
    sum_gradients(&s->r, method);
    times.gradients = ms_since(started);
    started = modelled_seconds();
    train_step(s, method);
    times.step = ms_since(started);
    begin_steps(&s->r);
    started = modelled_seconds();
    method(s->large, s->r.k, 0);
    times.large = ms_since(started);
    return times;
}

static void model_all(const Flags *flags, const Machines *machines, Figures f[NUM_METHODS]) {
    for (int m = 0; m < machines->count; m++) {
        modelled_clock_start(machines->machine[m]);
        Setting s = setting_new(flags->devices, flags->batch_size);
        for (int i = 0; i < NUM_METHODS; i++) {
            if (m == 0) count_bytes(&s, methods[i].run, &f[i]);
            f[i].on[m] = time_method(&s, methods[i].run);
        }
        setting_free(&s);
    }
}

// ## Figures

static void print_bytes(int k, const Figures f[NUM_METHODS]) {
    Table t =
        TABLE(NULL, WORDS("bytes received by", 23), WHOLE("busiest device"), WHOLE("least busy"));
    for (int i = 0; i < NUM_METHODS; i++) {
        table_text(&t, "%s", methods[i].name);
        table_numbers(&t, f[i].busiest, minimum(f[i].received, k));
    }
}

static void print_times(FILE *csv, const Machines *machines, const Figures f[NUM_METHODS], int k) {
    Table t =
        TABLE(csv, {.csv = "machine"}, WORDS("", 23, .csv = "method"), {.csv = "devices"},
              FIXED("LeNet's gradients", 3, .csv = "modelled_gradients_ms"),
              FIXED("a training step", 3, .csv = "modelled_step_ms"),
              FIXED("16 MB", 2, .csv = "modelled_large_ms"), {.csv = "device%d_bytes", .count = k});
    for (int m = 0; m < machines->count; m++) {
        const Machine *machine = machines->machine[m];
        printf("\n  modelled ms on %s (%s)\n", machine->name, links_of(machine, k));
        table_head(&t);
        for (int i = 0; i < NUM_METHODS; i++) {
            const Times *of = &f[i].on[m];
            table_text(&t, "%s", machine->name);
            table_text(&t, "%s", methods[i].name);
            table_numbers(&t, k, of->gradients, of->step, of->large);
            table_add_numbers(&t, (size_t)k, f[i].received);
        }
    }
    say("  (The 16 MB are one parameter: the second and third lines are a star there. Kernels are "
        "launched one by one, without CUDA graphs.)");
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Figures f[NUM_METHODS] = {0};
    int k = flags->devices;
    say("Question: what does it save to sum different parameters on different devices?");
    say("LeNet, k = %d, minibatches of %d. Times are modelled: how long the same work would take "
        "on these machines.\n",
        k, flags->batch_size);
    Machines machines = machines_with(k, flags->machine);
    if (machines.count == 0) {
        say("No machine has so many devices: nothing to tell.");
        return;
    }
    Prediction fewer = predict_first(
        "k devices sum the gradients of LeNet. In a star device 0 receives and sums them all; in "
        "parts each device sums 1/k of every gradient. How many times fewer bytes will the busiest "
        "device receive in parts than in the star, with k as above?");
    model_all(flags, &machines, f);
    print_bytes(k, f);
    predict_compare(fewer, f[STAR].busiest / f[PARTS].busiest, "times");
    print_times(csv, &machines, f, k);
}

static void refuse_one_device(const Flags *flags) {
    if (flags->devices < 2) die_usage("--devices 2 or more", "one device has nothing to sum up");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.devices = 4;
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: gradients summed on all devices.",
                    .flags = "devices batch-size",
                    .defaults = defaults,
                    .prepare = refuse_one_device,
                    .parts = check_parts,
                    .passed =
                        "sums are exact on all devices; bytes per device are those of the formula",
                    .experiment = experiment,
                    .plot = "exercise_allreduce.gp"});
}
