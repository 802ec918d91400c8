// experiment.c: a step of ResNet-18 on two devices, the second one slower and slower, with equal
// shards and with shards in proportion to the speeds. What does the division save? Measured here,
// and modelled on a machine whose devices do not share the cores.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "pair.h"
#include "your_part.h"

#include <math.h>

enum { NUM_SLOWDOWNS = 4, NUM_BATCHES = 4, MODELLED_TIMES = 8 };
static const double slowdowns[NUM_SLOWDOWNS] = {1, 1.25, 2, 4};
enum { TWICE_AS_SLOW = 2 }; // of the slowdowns

// ## The devices that are compared

// Two devices, of which the second is made slower.
typedef struct Side {
    Result by_slowdown[NUM_SLOWDOWNS], by_batch[NUM_BATCHES];
} Side;

typedef struct Results {
    Side measured, modelled;
    bool is_modelled; // else there is no machine
} Results;

static void print_head(const char *first) {
    printf("  %s  images/s of   rows of exchange ms per step (said) with shards that are  first\n"
           "            each device      each       ms          equal         proportional      "
           "alone\n",
           first);
}

static void print_result(const Result *r, double first) {
    printf("  %8.4g %6.0f %5.0f %4d %4d %8.2f %8.2f (%7.2f) %8.2f (%7.2f) %8.2f\n", first,
           r->speed[0], r->speed[1], r->rows[0], r->rows[1], 1e3 * r->exchange, 1e3 * r->equal,
           1e3 * r->said_equal, 1e3 * r->proportional, 1e3 * r->said_proportional, 1e3 * r->alone);
}

static Device *second(const Pair *p) { return p->both.devices[1]; }

static void compare_slowdowns(Pair *p, Side *side) {
    print_head("slowdown");
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        device_set_slowdown(second(p), slowdowns[i]);
        side->by_slowdown[i] = measure_all(p, p->X.shape[0], slowdowns[i]);
        print_result(&side->by_slowdown[i], slowdowns[i]);
    }
}

static void compare_batches(Pair *p, Side *side) {
    const Result *known = &side->by_slowdown[TWICE_AS_SLOW]; // with the whole minibatch
    printf("  the second %g times slower; smaller minibatches\n", known->slowdown);
    print_head("   batch");
    device_set_slowdown(second(p), known->slowdown);
    for (int i = 0; i < NUM_BATCHES; i++) {
        int n = known->n >> (NUM_BATCHES - 1 - i);
        side->by_batch[i] = *known;
        if (n < known->n)
            side->by_batch[i] = measure(p, n, known->slowdown, known->speed, known->exchange);
        print_result(&side->by_batch[i], n);
    }
}

static void compare_slower(const Flags *flags, Module *net, Pair *p, Side *side) {
    compare_slowdowns(p, side);
    compare_batches(p, side);
    device_set_slowdown(second(p), 1);
    leave_devices(net, flags->seed);
}

static void compare_measured(const Flags *flags, Module *net, DataIter *iter, Results *results) {
    Device *devices[K] = {cpu_device(0), cpu_device(1)};
    Pair p = pair_of(flags, net, devices, (const int[K]){1, 1}, iter);
    say("Measured: two CPU devices with a core each, the second made slower; minibatches of %d, "
        "images of 14 x 14",
        flags->batch_size);
    compare_slower(flags, net, &p, &results->measured);
}

// Of the book's images, and more of them: these devices are faster.
static void compare_modelled(const Flags *flags, Module *net, Results *results) {
    const Machine *machine = modelled_machine();
    int batch_size = MODELLED_TIMES * flags->batch_size;
    results->is_modelled = machine && machine_has_devices(machine, K);
    if (!results->is_modelled) return;
    Pair p = modelled_pair(flags, net, batch_size);
    say("\nModelled: two devices of %s, the second made slower; minibatches of %d, images of "
        "28 x 28",
        machine->name, batch_size);
    compare_slower(flags, net, &p, &results->modelled);
}

// Devices that are unequal by themselves.
static void compare_pair(const Flags *flags, Module *net, DataIter *iter, Device *const devices[K],
                         const int threads[K]) {
    Pair p = pair_of(flags, net, devices, threads, iter);
    print_head("   batch");
    Result r = measure_all(&p, flags->batch_size, 1);
    print_result(&r, flags->batch_size);
    leave_devices(net, flags->seed);
}

static void compare_threads(const Flags *flags, Module *net, DataIter *iter) {
    int threads = num_threads();
    if (threads < 3) return;
    printf("\nTwo CPU devices with %d cores and with 1\n", threads - 1);
    Device *devices[K] = {cpu_device(0), cpu_device(1)};
    compare_pair(flags, net, iter, devices, (const int[K]){threads - 1, 1});
}

static void compare_gpu(const Flags *flags, Module *net, DataIter *iter) {
    if (num_gpus() == 0) return;
    printf("\nA GPU, and a CPU device with %d cores beside it\n", num_threads());
    Device *devices[K] = {try_gpu(0), cpu_device(0)};
    compare_pair(flags, net, iter, devices, (const int[K]){1, num_threads()});
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

static void write_result(FILE *csv, const char *part, const char *machine, const Result *r) {
    fprintf(csv, "%s,%g,%d,%d,%d,%.3f,%.3f,%.7g,%.7g,%.7g,%.7g,%.7g,%.7g,%s\n", part, r->slowdown,
            r->n, r->rows[0], r->rows[1], r->speed[0], r->speed[1], r->exchange, r->equal,
            r->said_equal, r->proportional, r->said_proportional, r->alone, machine);
}

static void write_side(FILE *csv, const Side *side, const char *prefix, const char *machine) {
    char slowdown[32], batch[32];
    snprintf(slowdown, sizeof slowdown, "%sslowdown", prefix);
    snprintf(batch, sizeof batch, "%sbatch", prefix);
    for (int i = 0; i < NUM_SLOWDOWNS; i++)
        write_result(csv, slowdown, machine, &side->by_slowdown[i]);
    for (int i = 0; i < NUM_BATCHES; i++) write_result(csv, batch, machine, &side->by_batch[i]);
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Results results = {0};
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Dataset *data = small_images(flags->data, true, flags->batch_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, false, 0);
    say("Question: how should a minibatch be divided among devices of unequal speed, and is it "
        "worth it?");
    say("ResNet-18, the fastest of %d steps; in brackets what predict_step() says\n",
        flags->rounds);
    Prediction less = predict_first(
        "Two devices train together, and the second is twice as slow. How much of a step with "
        "equal shards will be saved, in percent, by shards in proportion to the speeds?");
    compare_measured(flags, net, iter, &results);
    warn_if_busy(results.measured.by_slowdown);
    compare_threads(flags, net, iter);
    compare_gpu(flags, net, iter);
    compare_modelled(flags, net, &results);
    if (results.is_modelled) // measured ones are too noisy to be told right or wrong by
        predict_compare(less, saved(&results.modelled.by_slowdown[TWICE_AS_SLOW]), "%");
    fprintf(csv, "part,slowdown,batch,rows0,rows1,speed0,speed1,exchange,equal,said_equal,"
                 "proportional,said_proportional,alone,machine\n");
    write_side(csv, &results.measured, "", "here");
    if (results.is_modelled)
        write_side(csv, &results.modelled, "modelled ", modelled_machine()->name);
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
