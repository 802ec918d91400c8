// experiment.c: a step of ResNet-18 on two devices, the second one slower and slower, with equal
// shards and with shards in proportion to the speeds. What does the division save? Measured here,
// and modelled on a machine whose devices do not share the cores.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "pair.h"
#include "your_part.h"

#include <math.h>

enum { NUM_SLOWDOWNS = 4, NUM_BATCHES = 4, MODELLED_TIMES = 8 };
static const double slowdowns[NUM_SLOWDOWNS] = {1, 1.25, 2, 4};
enum { TWICE_AS_SLOW = 2 }; // of the slowdowns

// ## The devices that are compared

// Rows of the CSV, by `part`; what they are printed under, and the results by slowdown.
typedef struct Side {
    Table *table;
    const char *prefix, *machine;
    Result by_slowdown[NUM_SLOWDOWNS];
} Side;

static void add_result(const Side *side, const char *part, const Result *r) {
    Table *t = side->table;
    table_text(t, "%s%s", side->prefix, part);
    table_numbers(t, r->slowdown, r->n, r->rows[0], r->rows[1], r->speed[0], r->speed[1],
                  r->exchange, r->equal, r->said_equal, r->proportional, r->said_proportional,
                  r->alone);
    table_text(t, "%s", side->machine);
}

static Device *second(const Pair *p) { return p->both.devices[1]; }

static void compare_slowdowns(Pair *p, Side *side) {
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        device_set_slowdown(second(p), slowdowns[i]);
        side->by_slowdown[i] = measure_all(p, p->X.shape[0], slowdowns[i]);
        add_result(side, "slowdown", &side->by_slowdown[i]);
    }
}

// The second some times slower, and smaller minibatches.
static void compare_batches(Pair *p, Side *side) {
    const Result *known = &side->by_slowdown[TWICE_AS_SLOW]; // with the whole minibatch
    device_set_slowdown(second(p), known->slowdown);
    for (int i = 0; i < NUM_BATCHES; i++) {
        int n = known->n >> (NUM_BATCHES - 1 - i);
        Result r = *known;
        if (n < known->n) r = measure(p, n, known->slowdown, known->speed, known->exchange);
        add_result(side, "batch", &r);
    }
}

static void compare_slower(const Flags *flags, Module *net, Pair *p, Side *side) {
    table_head(side->table);
    compare_slowdowns(p, side);
    compare_batches(p, side);
    device_set_slowdown(second(p), 1);
    leave_devices(net, flags->seed);
}

static void compare_measured(const Flags *flags, Module *net, DataIter *iter, Side *side) {
    Device *devices[K] = {cpu_device(0), cpu_device(1)};
    Pair p = pair_of(flags, net, devices, (const int[K]){1, 1}, iter);
    say("Measured: two CPU devices with a core each, the second made slower; minibatches of %d, "
        "images of 14 x 14",
        flags->batch_size);
    compare_slower(flags, net, &p, side);
}

// Of the book's images, and more of them: these devices are faster.
static void compare_modelled(const Flags *flags, Module *net, Side *side) {
    const Machine *machine = modelled_machine();
    int batch_size = MODELLED_TIMES * flags->batch_size;
    Pair p = modelled_pair(flags, net, batch_size);
    say("\nModelled: two devices of %s, the second made slower; minibatches of %d, images of "
        "28 x 28",
        machine->name, batch_size);
    compare_slower(flags, net, &p, side);
}

// Devices that are unequal by themselves.
static void compare_pair(const Flags *flags, Module *net, DataIter *iter, Device *const devices[K],
                         const int threads[K], const Side *side) {
    Pair p = pair_of(flags, net, devices, threads, iter);
    Result r = measure_all(&p, flags->batch_size, 1);
    table_head(side->table);
    add_result(side, "unequal", &r);
    leave_devices(net, flags->seed);
}

static void compare_threads(const Flags *flags, Module *net, DataIter *iter, const Side *side) {
    int threads = num_threads();
    if (threads < 3) return;
    printf("\nTwo CPU devices with %d cores and with 1\n", threads - 1);
    Device *devices[K] = {cpu_device(0), cpu_device(1)};
    compare_pair(flags, net, iter, devices, (const int[K]){threads - 1, 1}, side);
}

static void compare_gpu(const Flags *flags, Module *net, DataIter *iter, const Side *side) {
    if (num_gpus() == 0) return;
    printf("\nA GPU, and a CPU device with %d cores beside it\n", num_threads());
    Device *devices[K] = {try_gpu(0), cpu_device(0)};
    compare_pair(flags, net, iter, devices, (const int[K]){1, num_threads()}, side);
}

// If something else kept the cores busy, the slowdowns did not come out as asked for.
static void warn_if_busy(const Result by_slowdown[NUM_SLOWDOWNS]) {
    double base = by_slowdown[0].speed[1] / by_slowdown[0].speed[0];
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        double came = base * by_slowdown[i].speed[0] / by_slowdown[i].speed[1];
        if (fabs(came / slowdowns[i] - 1) > 0.25) {
            say("  (The device that was to be %g times slower was %.2f times slower: something "
                "else is using the cores, and nothing follows from these times.)",
                slowdowns[i], came);
            return;
        }
    }
}

// Percent of the step with equal shards.
static double saved(const Result *r) { return 100 * (1 - r->proportional / r->equal); }

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    const Machine *machine = modelled_machine();
    Table t =
        TABLE(csv, {.csv = "part"}, DIGITS("slower", 3, .width = 6, .csv = "slowdown"),
              WHOLE("batch", .width = 5, .csv = "batch"),
              WHOLE("rows%d", .width = 5, .csv = "rows%d", .count = K),
              WHOLE("speed%d", .width = 6, .csv = "speed%d", .count = K),
              DIGITS("exch.", 3, .csv = "exchange"), DIGITS("equal", 3, .csv = "equal"),
              DIGITS("said", 3, .csv = "said_equal"), DIGITS("by speed", 3, .csv = "proportional"),
              DIGITS("said", 3, .csv = "said_proportional"), DIGITS("alone", 3, .csv = "alone"),
              {.csv = "machine"});
    Side measured = {.table = &t, .prefix = "", .machine = "here"};
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Dataset *data = small_images(flags->data, true, flags->batch_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, false, 0);
    say("Question: how should a minibatch be divided among devices of unequal speed, and is it "
        "worth it?");
    say("ResNet-18, the fastest of %d steps, in seconds, with equal shards and by speed; said: "
        "what "
        "predict_step() says; speeds in images/s\n",
        flags->rounds);
    Prediction less = predict_first(
        "Two devices train together, and the second is twice as slow. How much of a step with "
        "equal shards will be saved, in percent, by shards in proportion to the speeds?");
    compare_measured(flags, net, iter, &measured);
    warn_if_busy(measured.by_slowdown);
    compare_threads(flags, net, iter, &measured);
    compare_gpu(flags, net, iter, &measured);
    if (machine && machine_has_devices(machine, K)) {
        Side modelled = {.table = &t, .prefix = "modelled ", .machine = machine->name};
        compare_modelled(flags, net, &modelled); // measured ones are too noisy to be right or wrong
        predict_compare(less, saved(&modelled.by_slowdown[TWICE_AS_SLOW]), "%");
    }
    data_iter_free(iter);
    dataset_free(data);
    module_free(net);
}

static void refuse_small_batches(const Flags *flags) {
    if (flags->batch_size < 1 << NUM_BATCHES)
        die_usage("--batch-size 16 or more", "%d images cannot be halved often enough",
                  flags->batch_size);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 32;
    defaults.lr = 0.02f;
    defaults.rounds = 4;
    defaults.quick_means = "--batch-size 16 --rounds 2";
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: a minibatch divided among unequal devices.",
                    .flags = "batch-size lr seed rounds",
                    .defaults = defaults,
                    .prepare = refuse_small_batches,
                    .parts = check_parts,
                    .passed = "shards cover the rows, in proportion; training is that of equal "
                              "shards",
                    .experiment = experiment,
                    .plot = "exercise_unequal_devices.gp"});
}
