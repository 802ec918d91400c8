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

enum { NUM_SLOWDOWNS = 4, NUM_BATCHES = 4, MODELLED_TIMES = 8, PIXELS = 28 };
static const double slowdowns[NUM_SLOWDOWNS] = {1, 1.25, 2, 4};
enum { TWICE_AS_SLOW = 2 }; // of the slowdowns

static void add_result(Table *t, const Pair *p, const char *part, double slowdown, Result r) {
    table_text(t, "%s%s", p->modelled ? "modelled " : "", part);
    table_numbers(t, slowdown, r.n, r.rows[0], r.rows[1], r.speed[0], r.speed[1], r.exchange,
                  r.equal, r.said_equal, r.proportional, r.said_proportional, r.alone);
    table_text(t, "%s", p->modelled ? modelled_machine()->name : "here");
}

// The second device slower and slower; then twice as slow, with smaller minibatches. Returns the
// result with the whole minibatch on that one.
static Result compare_slower(Pair *p, Table *t) {
    Result twice = {0};
    table_head(t);
    for (int i = 0; i < NUM_SLOWDOWNS; i++) {
        device_set_slowdown(p->both.devices[1], slowdowns[i]);
        Result r = measure_all(p);
        add_result(t, p, "slowdown", slowdowns[i], r);
        if (i == TWICE_AS_SLOW) twice = r;
    }
    device_set_slowdown(p->both.devices[1], slowdowns[TWICE_AS_SLOW]);
    for (int n = twice.n >> (NUM_BATCHES - 1); n <= twice.n; n *= 2)
        add_result(t, p, "batch", slowdowns[TWICE_AS_SLOW],
                   n < twice.n ? measure(p, n, twice) : twice);
    device_set_slowdown(p->both.devices[1], 1);
    return twice;
}

static void compare_here(const Flags *flags, Module *net, Table *t) {
    Dataset *data = small_images(flags->data, true, flags->batch_size);
    DataIter *iter = data_iter_new(data, flags->batch_size, false, 0);
    Tensor *X, *y;
    data_iter_first(iter, &X, &y);
    Pair p = pair_of(net, cpu_device(0), cpu_device(1), X, y);
    say("Measured: two CPU devices, the second made slower; images of 14 x 14");
    compare_slower(&p, t);
    leave_devices(net, flags->seed);
    if (num_gpus() > 0) {
        p = pair_of(net, try_gpu(0), cpu_device(0), X, y);
        say("\nA GPU, and a CPU device beside it");
        table_head(t);
        add_result(t, &p, "unequal", 1, measure_all(&p));
        leave_devices(net, flags->seed);
    }
    data_iter_free(iter);
    dataset_free(data);
}

// Of the book's images, and more of them: these devices are faster. Shapes without values.
static Result compare_modelled(const Flags *flags, Module *net, Table *t) {
    int n = MODELLED_TIMES * flags->batch_size;
    Tensor X = {.ndim = 4, .shape = {n, 1, PIXELS, PIXELS}, .device = host()};
    Tensor y = {.ndim = 1, .shape = {n}, .device = host()};
    Pair p = pair_of(net, model_device(0), model_device(1), &X, &y);
    say("\nModelled: two devices of %s; minibatches of %d, images of 28 x 28",
        modelled_machine()->name, n);
    Result twice = compare_slower(&p, t);
    leave_devices(net, flags->seed);
    return twice;
}

static void experiment(const Flags *flags, FILE *csv) {
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    initialize(net, flags->seed);
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
        "first device alone; said: the rows of the slowest device by its speed, and the exchange; "
        "speeds in images/s\n",
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
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: a minibatch divided among unequal devices.",
                    .flags = "batch-size=32 seed",
                    .prepare = refuse_small_batches,
                    .experiment = experiment,
                    .plot = "exercise_unequal_devices.gp",
                    .program = {.own = rounds_flag, .quick_means = "--batch-size 16 --rounds 2"}});
}
