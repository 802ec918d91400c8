// experiment.c: a step of ResNet-18 on two devices, the second one slower and slower, with equal
// shards and with shards in proportion to the speeds. Measured here, and modelled on a machine
// whose devices do not share the cores.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "pair.h"

enum { NUM_SLOWDOWNS = 4, NUM_BATCHES = 4, MODELLED_TIMES = 8 };
static const double slowdowns[NUM_SLOWDOWNS] = {1, 1.25, 2, 4};
enum { TWICE_AS_SLOW = 2 }; // of the slowdowns

static void add_result(Table *t, const Pair *p, const char *part, const Result *r) {
    table_text(t, "%s%s", p->modelled ? "modelled " : "", part);
    table_numbers(t, r->slowdown, r->n, r->rows[0], r->rows[1], r->speed[0], r->speed[1],
                  r->exchange, r->equal, r->said_equal, r->proportional, r->said_proportional,
                  r->alone);
    table_text(t, "%s", p->modelled ? modelled_machine()->name : "here");
}

// The second device slower and slower; then twice as slow, with smaller minibatches. Returns the
// result with the whole minibatch on that one.
static Result compare_slower(Pair *p, Table *t) {
    Result twice = {0};
    table_head(t);
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        device_set_slowdown(p->both.devices[1], slowdowns[i]);
        Result r = measure_all(p, p->X.shape[0], slowdowns[i]);
        add_result(t, p, "slowdown", &r);
        if (i == TWICE_AS_SLOW) twice = r;
    }
    device_set_slowdown(p->both.devices[1], twice.slowdown);
    for (int n = twice.n >> (NUM_BATCHES - 1); n <= twice.n; n *= 2) {
        Result r = twice;
        if (n < twice.n) r = measure(p, n, twice.slowdown, twice.speed, twice.exchange);
        add_result(t, p, "batch", &r);
    }
    device_set_slowdown(p->both.devices[1], 1);
    return twice;
}

// Devices that are unequal by themselves.
static void compare_unequal(const Flags *flags, Module *net, DataIter *iter, Table *t,
                            Device *first, Device *second, const int threads[K]) {
    Pair p = pair_of(flags, net, (Device *const[K]){first, second}, threads, iter);
    Result r = measure_all(&p, flags->batch_size, 1);
    table_head(t);
    add_result(t, &p, "unequal", &r);
    leave_devices(net, flags->seed);
}

static void compare_here(const Flags *flags, Module *net, Table *t) {
    Dataset *data = small_images(flags->data, true, flags->batch_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, false, 0);
    Device *first = cpu_device(0), *second = cpu_device(1);
    int cores = num_threads();
    Pair p = pair_of(flags, net, (Device *const[K]){first, second}, (const int[K]){1, 1}, iter);
    say("Measured: two CPU devices with a core each, the second made slower; images of 14 x 14");
    compare_slower(&p, t);
    leave_devices(net, flags->seed);
    if (cores > 2) {
        printf("\nTwo CPU devices with %d cores and with 1\n", cores - 1);
        compare_unequal(flags, net, iter, t, first, second, (const int[K]){cores - 1, 1});
    }
    if (num_gpus() > 0) {
        printf("\nA GPU, and a CPU device with %d cores beside it\n", cores);
        compare_unequal(flags, net, iter, t, try_gpu(0), first, (const int[K]){1, cores});
    }
    data_iter_free(iter);
    dataset_free(data);
}

// Of the book's images, and more of them: these devices are faster.
static Result compare_modelled(const Flags *flags, Module *net, Table *t) {
    Pair p = modelled_pair(flags, net, MODELLED_TIMES * flags->batch_size);
    say("\nModelled: two devices of %s; minibatches of %d, images of 28 x 28",
        modelled_machine()->name, p.X.shape[0]);
    Result twice = compare_slower(&p, t);
    leave_devices(net, flags->seed);
    return twice;
}

static void experiment(const Flags *flags, FILE *csv) {
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Table t =
        TABLE(csv, {.csv = "part"}, DIGITS("slower", 3, .width = 6, .csv = "slowdown"),
              WHOLE("batch", .width = 5, .csv = "batch"),
              WHOLE("rows%d", .width = 5, .csv = "rows%d", .count = K),
              WHOLE("speed%d", .width = 6, .csv = "speed%d", .count = K),
              DIGITS("exch.", 3, .csv = "exchange"), DIGITS("equal", 3, .csv = "equal"),
              DIGITS("said", 3, .csv = "said_equal"), DIGITS("by speed", 3, .csv = "proportional"),
              DIGITS("said", 3, .csv = "said_proportional"), DIGITS("alone", 3, .csv = "alone"),
              {.csv = "machine"});
    say("ResNet-18, the fastest of %d steps, in seconds, with equal shards, by speed, and the "
        "first device alone; said: what predict_step() says; speeds in images/s\n",
        rounds);
    Prediction less = predict_first(
        "Two devices train together, and the second is twice as slow. How much of a step with "
        "equal shards will be saved, in percent, by shards in proportion to the speeds?");
    compare_here(flags, net, &t);
    if (modelled_machine() && machine_has_devices(modelled_machine(), K)) {
        Result r = compare_modelled(flags, net, &t); // what is measured is too noisy to be compared
        predict_compare(less, 100 * (1 - r.proportional / r.equal), "%");
    }
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
    defaults.own = rounds_flag;
    defaults.quick_means = "--batch-size 16 --rounds 2";
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: a minibatch divided among unequal devices.",
                    .flags = "batch-size lr seed",
                    .defaults = defaults,
                    .prepare = refuse_small_batches,
                    .experiment = experiment,
                    .plot = "exercise_unequal_devices.gp"});
}
