// experiment.c: five ways to sum the gradients of LeNet, from the book's star to chapter 2's: the
// bytes that each device receives, and how long an allreduce and a training step would take on
// three machines. (Here all devices share one memory, so times are modelled.)
#include "common/base/statistics.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"
#include "your_part.h"

#include <string.h>

// Each sums parameter number p of LeNet over k devices.
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

enum { NUM_METHODS = 5, MOST_MACHINES = 4 };
static const struct {
    const char *name;
    Method *run;
} methods[NUM_METHODS] = {{"star (the book's)", star},
                          {"parameter p on p mod k", at_p_mod_k},
                          {"largest first", largest_first},
                          {"k parts each", in_parts},
                          {"chapter 2, sharded", chapter_2}};

static const char *machines[MOST_MACHINES] = {"dgx-a100", "rtx4090-pcie", "laptops-1gbe"};
static int num_machines = 3; // --machine adds one
enum { LARGE = 4 << 20 };    // floats, with which bytes count for more than the number of copies

typedef struct Setting {
    Replicas r;
    Tensor *X, *y, *large[MAX_DEVICES];
} Setting;

static void sum_gradients(Setting *s, Method *method) {
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *grads[MAX_DEVICES];
        for (int i = 0; i < s->r.k; i++) grads[i] = s->r.params[i][p]->grad;
        method(grads, s->r.k, p);
    }
}

// train_batch() of chapter 4, with another allreduce in it.
static void train_step(Setting *s, Method *method) {
    Replicas *r = &s->r;
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *losses[MAX_DEVICES];
    split_batch(s->X, s->y, r->devices, r->k, X_shards, y_shards);
    for (int i = 0; i < r->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], r->params[i]), y_shards[i]));
    for (int i = 0; i < r->k; i++) backward(losses[i]);
    sum_gradients(s, method);
    for (int i = 0; i < r->k; i++) sgd(r->params[i], LENET_PARAMS, 0, s->X->shape[0]);
}
static void sum_large(Setting *s, Method *method) { method(s->large, s->r.k, 0); }

static double modelled_ms(Setting *s, void (*work)(Setting *s, Method *method), Method *method) {
    for (int i = 0; i < s->r.k; i++) begin_step(s->r.devices[i]);
    double started = modelled_seconds();
    work(s, method);
    synchronize_all();
    return 1e3 * (modelled_seconds() - started);
}

static void add_row(Table *t, Setting *s, int m, int i) {
    int k = s->r.k;
    double received[MAX_DEVICES];
    ledger_reset();
    double gradients = modelled_ms(s, sum_gradients, methods[i].run);
    for (int to = 0; to < k; to++) {
        received[to] = 0;
        for (int from = 0; from < k; from++)
            if (from != to)
                received[to] += (double)ledger_bytes(s->r.devices[from], s->r.devices[to]);
    }
    table_text(t, "%s", machines[m]);
    table_text(t, "%s", methods[i].name);
    table_numbers(t, k, gradients, modelled_ms(s, train_step, methods[i].run),
                  modelled_ms(s, sum_large, methods[i].run), maximum(received, k));
    table_add_numbers(t, (size_t)k, received);
}

static void model_machine(Table *t, const Flags *flags, int m) {
    int k = flags->devices;
    modelled_clock_start(machine_find(machines[m]));
    Setting s = {.X = tensor_new(host(), flags->batch_size, 1, 28, 28),
                 .y = tensor_new(host(), flags->batch_size)};
    replicas_open_modelled(&s.r, k);
    for (int i = 0; i < k; i++) s.large[i] = tensor_new(s.r.devices[i], LARGE);
    printf("\n  modelled ms on %s\n", machines[m]);
    table_head(t);
    for (int i = 0; i < NUM_METHODS; i++) add_row(t, &s, m, i);
    for (int i = 0; i < k; i++) tensor_free(s.large[i]);
    tensor_free(s.X);
    tensor_free(s.y);
    replicas_close(&s.r);
}

static void experiment(const Flags *flags, FILE *csv) {
    say("LeNet's gradients on %d devices, minibatches of %d, five ways to sum them:",
        flags->devices, flags->batch_size);
    Table t = TABLE(csv, {.csv = "machine"}, WORDS("", 23, .csv = "method"), {.csv = "devices"},
                    FIXED("gradients", 3, .csv = "modelled_gradients_ms"),
                    FIXED("a step", 3, .csv = "modelled_step_ms"),
                    FIXED("16 MB", 2, .csv = "modelled_large_ms"), WHOLE("most bytes to one"),
                    {.csv = "device%d_bytes", .count = flags->devices});
    for (int m = 0; m < num_machines; m++)
        if (machine_has_devices(machine_find(machines[m]), flags->devices))
            model_machine(&t, flags, m);
}

static void prepare(const Flags *flags) {
    if (flags->devices < 2) die_usage("--devices 2 or more", "one device has nothing to sum up");
    if (strcmp(flags->machine, "none") != 0) machines[num_machines++] = flags->machine;
}

int main(int argc, char *argv[]) {
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 3: gradients summed on all devices.",
                                     .flags = "devices=4 machine=none batch-size",
                                     .prepare = prepare,
                                     .experiment = experiment,
                                     .plot = "exercise_allreduce.gp"});
}
