// # Exercise 1: more devices
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 1: "Experiment
// with different epochs, batch sizes, and learning rates. Use more GPUs for computation. What
// happens if you try this with 16 GPUs?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-05-1                       the question, the answer, the evidence
//   make exercise-05-1 ARGS=--check          only check the solution: a second
//   make exercise-05-1 ARGS='--train-size 4096 --epochs 6'     longer, with more to see
//
// ResNet-18 on 1, 2, 4, 8 and 16 devices, all with the same minibatches of --batch-size images:
// what stays, what grows, what shrinks? Without 16 GPUs these are logical devices: they compute,
// hold and send what 16 GPUs would, only not faster. Images have 14 x 14 pixels, so that two
// minutes are enough.
#include "common/base/error.h"
#include "common/device/timer.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Flags flags;

// ## Your part
//
// One pass over the data on the k devices of dp. data_iter_start(iter, epoch) begins it,
// data_iter_next() gets a minibatch. train_step() of chapter 5 trains on one and leaves the summed
// loss of shard i in losses[i], which item() reads. Returns the mean loss of an image.
static double train_epoch(DataParallel *dp, DataIter *iter, int epoch, float lr) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    double total = 0;
    long images = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_step(dp, X, y, lr, losses);
        for (int i = 0; i < dp->k; i++) total += (double)item(losses[i]);
        images += X->shape[0];
    }
    return total / (double)images;
    // END SOLUTION
}

// The bytes that cross between the devices in one step, by the formulas. An allreduce of N bytes
// moves 2 (k-1) N of them in all; parameter_bytes() of a network says how many it has to sum. With
// BN_SYNC each device also sends 4 C + 1 floats to each other one for a batch norm of C channels:
// these are the entries of parameters_of(net) whose name ends with "running_mean", C elements each
// (numel(entry->start)).
static uint64_t bytes_of_step(const Module *net, int k, BatchNormMode bn) {
    // SOLUTION (starter: return 0;)
    Parameters all = parameters_of(net);
    uint64_t others = (uint64_t)k - 1, bytes = 2 * others * parameter_bytes(net);
    for (int p = 0; p < all.n; p++)
        if (bn == BN_SYNC && strstr(all.list[p]->name, "running_mean"))
            bytes += (uint64_t)k * others * sizeof(float) * (4 * numel(all.list[p]->start) + 1);
    return bytes;
    // END SOLUTION
}

// ## The check
//
// With synchronised batch norm k devices make the updates of one; with local statistics they make
// others. Bytes are counted.

enum { CHECKED_EPOCHS = 2, CHECKED_BATCH = 16 };

static void check_bytes(const Module *net, const DataParallel *dp, const Dataset *data) {
    uint64_t steps = (uint64_t)(data->count + CHECKED_BATCH - 1) / CHECKED_BATCH * CHECKED_EPOCHS;
    uint64_t came = ledger_bytes_between_devices(), said = bytes_of_step(net, dp->k, dp->bn);
    size_t image = sizeof(float) * (size_t)(data->rows * data->cols + 1); // and its label
    double images = (double)ledger_bytes_host() / (double)image;
    EXPECT(images >= (double)(data->count * CHECKED_EPOCHS),
           "k = %d: the devices got %.0f images in %d epochs of %d", dp->k, images, CHECKED_EPOCHS,
           data->count);
    EXPECT(came == steps * said,
           "k = %d, %s: %llu bytes crossed in %llu steps; bytes_of_step() says %llu for each",
           dp->k, dp->bn == BN_SYNC ? "sync" : "local", (unsigned long long)came,
           (unsigned long long)steps, (unsigned long long)said);
}

// What one device makes of the same data.
typedef struct Expected {
    float *start, *end;
    double loss;
} Expected;

static void check_run(Module *net, int k, BatchNormMode bn, const Dataset *data, Expected one) {
    const float lr = 0.5f;
    double loss = NAN;
    DataParallel dp = network_on(net, k, bn, 7);
    DataIter *iter = data_iter_new(data, CHECKED_BATCH, true, 7);
    synchronize_all();
    ledger_reset();
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) loss = train_epoch(&dp, iter, epoch, lr);
    synchronize_all();
    check_bytes(net, &dp, data);
    float *came = network_values(net, dp.devices[k - 1]);
    double difference = relative_difference(came, one.end, one.start, network_numel(net));
    bool as_one = bn == BN_SYNC || k == 1;
    // Not less: rounding may put a value that is nearly zero on the other side of ReLU. Local
    // statistics lead 0.1 and more away.
    EXPECT(as_one ? difference <= 1e-2 : difference >= 1e-2,
           "k = %d, %s: parameters differ from those of one device by %g of the change; expected "
           "%s 0.01",
           k, bn == BN_SYNC ? "sync" : "local", difference, as_one ? "at most" : "at least");
    EXPECT(!as_one || fabs(loss - one.loss) <= 1e-2 * one.loss,
           "k = %d: mean loss %.6f, one device has %.6f", k, loss, one.loss);
    EXPECT(isfinite(loss), "k = %d: the mean loss is %g", k, loss);
    data_iter_free(iter);
    free(came);
}

static void check(void) {
    Dataset *data = small_images(flags.data, false, 90); // the last minibatch has 10
    Module *net = small_network();
    Expected one;
    network_on(net, 1, BN_SYNC, 7);
    one.start = network_values(net, try_gpu(0));
    one.loss = train_one_device(net, data, CHECKED_BATCH, 0.5f, CHECKED_EPOCHS, 7);
    one.end = network_values(net, try_gpu(0));
    for (int k = 1; k <= 16; k = k < 4 ? k + 1 : 2 * k) check_run(net, k, BN_SYNC, data, one);
    check_run(net, 2, BN_LOCAL, data, one);
    check_run(net, 16, BN_LOCAL, data, one); // a single image for each device, or none
    free(one.start);
    free(one.end);
    leave_devices(net, 0);
    module_free(net);
    dataset_free(data);
    printf("check passed: with synchronised batch norm k devices make the updates of one; the "
           "bytes are those of the formula\n\n");
}

// ## The experiment

enum { MAX_EPOCHS = 16 };
static const double GUESSING = 0.1;

typedef struct Run {
    int k, batch_size;
    BatchNormMode bn;
    float lr;
    double loss[MAX_EPOCHS], accuracy[MAX_EPOCHS]; // after each epoch
    double averaged; // accuracy after the last, with the statistics averaged over the devices
} Run;

static Dataset *train_data;
static DataIter *test_iter;

static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

static void run(Module *net, Run *r) {
    DataParallel dp = network_on(net, r->k, r->bn, flags.seed);
    DataIter *iter = data_iter_new(train_data, r->batch_size, true, flags.seed);
    for (int epoch = 0; epoch < flags.epochs; epoch++) {
        r->loss[epoch] = train_epoch(&dp, iter, epoch, r->lr);
        r->accuracy[epoch] = evaluate_accuracy_gpus(&dp, test_iter);
        EXPECT(isfinite(r->loss[epoch]), "k = %d, lr %g: the loss became %g", r->k, (double)r->lr,
               r->loss[epoch]);
    }
    r->averaged = r->accuracy[flags.epochs - 1];
    if (r->bn == BN_LOCAL && r->k > 1) {
        dp.bn = BN_AVERAGED; // the same training, evaluated with other statistics
        r->averaged = evaluate_accuracy_gpus(&dp, test_iter);
    }
    data_iter_free(iter);
    leave_devices(net, flags.seed);
}

// ### What k devices learn

enum { ONE, LOCAL_4, LOCAL_16, SYNC_16, NUM_RUNS };
static Run runs[NUM_RUNS] = {{.k = 1, .bn = BN_LOCAL},
                             {.k = 4, .bn = BN_LOCAL},
                             {.k = 16, .bn = BN_LOCAL},
                             {.k = 16, .bn = BN_SYNC}};

static void compare_learning(Module *net) {
    printf("  ResNet-18 with a quarter of the channels, %d epochs of %d images, lr %g\n"
           "              images per    loss in epoch            test accuracy, with statistics\n"
           "  devices bn    device      1         %-2d            of each device   averaged\n",
           flags.epochs, train_data->count, (double)flags.lr, flags.epochs);
    for (int i = 0; i < NUM_RUNS; i++) {
        Run *r = &runs[i];
        r->batch_size = flags.batch_size;
        r->lr = flags.lr;
        run(net, r);
        printf("  %7d %-5s %6.3g %10.4f %10.4f %20.3f %12.3f\n", r->k, name_of(r->bn),
               (double)r->batch_size / r->k, r->loss[0], r->loss[flags.epochs - 1],
               r->accuracy[flags.epochs - 1], r->averaged);
    }
}

// ### Epochs, batch size, learning rate: on one device, as their effect has nothing to do with k

enum { NUM_SETTINGS = 4 };
static Run settings[NUM_SETTINGS];

static void compare_settings(Module *net) {
    static const struct {
        int batch_times;
        float lr_times;
    } times[NUM_SETTINGS] = {{1, 1}, {1, 5}, {2, 1}, {2, 5}};
    printf("\n  The same network on one device\n"
           "  batch size      lr   updates/epoch   test accuracy after each epoch\n");
    for (int i = 0; i < NUM_SETTINGS; i++) {
        Run *r = &settings[i];
        *r = (Run){.k = 1, .bn = BN_LOCAL};
        r->batch_size = times[i].batch_times * flags.batch_size;
        r->lr = times[i].lr_times * flags.lr;
        if (i == 0)
            *r = runs[ONE]; // that one has been made
        else
            run(net, r);
        printf("  %10d %7g %15d  ", r->batch_size, (double)r->lr,
               (train_data->count + r->batch_size - 1) / r->batch_size);
        for (int epoch = 0; epoch < flags.epochs; epoch++) printf(" %.3f", r->accuracy[epoch]);
        printf("\n");
    }
}

// ### What k devices cost: the whole ResNet-18, a few steps

enum { NUM_COSTS = 6, COST_STEPS = 4 };
typedef struct Cost {
    int k;
    BatchNormMode bn;
    double step, bytes;       // seconds, the fastest; bytes between devices
    double device_mb, all_mb; // in use on the first device, on all
} Cost;
static Cost costs[NUM_COSTS] = {{.k = 1}, {.k = 2}, {.k = 4}, {.k = 8}, {.k = 16}, {.k = 16}};
enum { COST_1, COST_16 = 4, COST_SYNC };

static void measure_cost(Module *net, Cost *c) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataParallel dp = network_on(net, c->k, c->bn, flags.seed);
    DataIter *iter = data_iter_new(train_data, flags.batch_size, false, flags.seed);
    data_iter_start(iter, 0);
    CHECK(data_iter_next(iter, &X, &y), "there is a minibatch");
    c->step = INFINITY;
    for (int step = 0; step < COST_STEPS; step++) {
        Timer timer = {0};
        ledger_reset();
        timer_start(&timer);
        train_step(&dp, X, y, flags.lr, losses);
        c->step = fmin(c->step, timer_stop(&timer));
        c->bytes = (double)ledger_bytes_between_devices();
    }
    EXPECT(c->bytes == (double)bytes_of_step(net, c->k, c->bn), "k = %d: a step moved %.0f bytes",
           c->k, c->bytes);
    c->device_mb = (double)device_bytes(dp.devices[0]) / 1e6;
    for (int i = 0; i < c->k; i++) c->all_mb += (double)device_bytes(dp.devices[i]) / 1e6;
    data_iter_free(iter);
    leave_devices(net, flags.seed);
}

static void compare_costs(Module *net) {
    costs[COST_SYNC].bn = BN_SYNC;
    printf("\n  ResNet-18, a step with a minibatch of %d (fastest of %d)\n"
           "  devices bn      seconds   MB between devices   MB of memory: device 0       all\n",
           flags.batch_size, COST_STEPS);
    for (int i = 0; i < NUM_COSTS; i++) {
        measure_cost(net, &costs[i]);
        printf("  %7d %-5s %9.3f %20.1f %24.0f %9.0f\n", costs[i].k, name_of(costs[i].bn),
               costs[i].step, costs[i].bytes / 1e6, costs[i].device_mb, costs[i].all_mb);
    }
}

// ### The answer

static void explain_learning(void) {
    const Run *one = &runs[ONE], *sync = &runs[SYNC_16], *local = &runs[LOCAL_16];
    int last = flags.epochs - 1;
    double images = (double)flags.batch_size / 16;
    printf("\nAnswer\n"
           "  With synchronised batch norm 16 devices make the updates of one, up to rounding "
           "(which grows\n    from step to step): loss %.4f in the first epoch, on one device "
           "%.4f.\n",
           sync->loss[0], one->loss[0]);
    printf("  With local statistics each device normalises with mean and variance of its own %.3g "
           "image%s. That\n    is another function, with more noise: loss %.3f in the last epoch, "
           "on one device %.3f.\n    And each device keeps running statistics of its own: accuracy "
           "%.3f with those, %.3f with\n    their mean over the devices, %.3f on one device.\n",
           images, images == 1 ? "" : "s", local->loss[last], one->loss[last],
           local->accuracy[last], local->averaged, one->accuracy[last]);
    if (!(fmax(one->accuracy[last], local->averaged) > 1.5 * GUESSING))
        printf("    But accuracy %g is guessing, so these say nothing: take more --epochs.\n",
               GUESSING);
}

static void explain_settings(void) {
    const Run *best = &settings[0];
    int last = flags.epochs - 1;
    for (int i = 1; i < NUM_SETTINGS; i++)
        if (settings[i].accuracy[last] > best->accuracy[last]) best = &settings[i];
    if (best->accuracy[last] > 1.5 * GUESSING)
        printf("  Settings: the best of %d after %d epochs is batch size %d with lr %g: %.3f. One "
               "seed and few\n    steps rank only what differs a lot (exercise 04-2 takes several "
               "seeds).\n",
               NUM_SETTINGS, flags.epochs, best->batch_size, (double)best->lr,
               best->accuracy[last]);
}

static void explain_costs(Module *net) {
    const Cost *one = &costs[COST_1], *many = &costs[COST_16], *sync = &costs[COST_SYNC];
    printf("  Bytes: a step moves 2 (k-1) times the %.1f MB of gradients, whatever the minibatch "
           "is: %.0f MB\n    with k = 16. Synchronised batch norm adds %.1f MB, in many small "
           "messages.\n",
           (double)parameter_bytes(net) / 1e6, many->bytes / 1e6,
           (sync->bytes - many->bytes) / 1e6);
    printf("  Memory: activations are shared out, parameters and gradients are not. Alone a device "
           "needs\n    %.0f MB, as one of 16 still %.0f MB; all 16 together %.0f MB.\n",
           one->device_mb, many->device_mb, many->all_mb);
    printf("  Time: a step takes %.2f s on 1 device, %.2f s on 16, %.2f s on 16 with synchronised "
           "batch norm.\n",
           one->step, many->step, sync->step);
    if (num_gpus() < 16)
        printf("    These 16 share %s, so the arithmetic is no faster; what is added is what 16 "
               "devices cost:\n    16 copies of the parameters to sum and to update. With a GPU "
               "for each, the arithmetic would\n    take a 16th, and those %.0f MB would still "
               "have to cross. So 16 GPUs want larger minibatches,\n    and with them other "
               "learning rates and epochs.\n",
               num_gpus() ? "GPUs" : "cores", many->bytes / 1e6);
}

// ### Figures and plot

static void write_run(FILE *csv, const char *part, const Run *r) {
    for (int epoch = 0; epoch < flags.epochs; epoch++)
        fprintf(csv, "%s,%d,%s,%d,%g,%d,%.6f,%.4f,%.4f,,,,\n", part, r->k, name_of(r->bn),
                r->batch_size, (double)r->lr, epoch + 1, r->loss[epoch], r->accuracy[epoch],
                r->averaged);
}

static void write_csv(const char *path) {
    OutputFile file = output_open(path);
    fprintf(file.stream, "part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,"
                         "step_mb,device_mb,all_mb\n");
    for (int i = 0; i < NUM_RUNS; i++) write_run(file.stream, "learning", &runs[i]);
    for (int i = 0; i < NUM_SETTINGS; i++) write_run(file.stream, "settings", &settings[i]);
    for (int i = 0; i < NUM_COSTS; i++)
        fprintf(file.stream, "costs,%d,%s,%d,,,,,,%.5f,%.3f,%.1f,%.1f\n", costs[i].k,
                name_of(costs[i].bn), flags.batch_size, costs[i].step, costs[i].bytes / 1e6,
                costs[i].device_mb, costs[i].all_mb);
    output_close(&file);
}

static void compare_all(void) {
    Module *narrow = narrow_resnet18(), *net = resnet18(FASHION_MNIST_CLASSES, 1);
    compare_learning(narrow);
    compare_settings(narrow);
    compare_costs(net);
    explain_learning();
    explain_settings();
    explain_costs(net);
    module_free(narrow);
    module_free(net);
}

static void experiment(void) {
    Dataset *test_data = small_images(flags.data, false, flags.test_size);
    train_data = small_images(flags.data, true, flags.train_size);
    test_iter = data_iter_new(test_data, 50, false, 0);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    printf("Question: what happens on 16 devices, and with other batch sizes, learning rates and "
           "epochs?\n"
           "Images of 14 x 14, minibatches of %d for all devices together, accuracy on %d test "
           "images\n\n",
           flags.batch_size, test_data->count);
    compare_all();
    write_csv(csv);
    draw_plot("exercise_more_devices.gp", csv, png);
    free(csv);
    free(png);
    data_iter_free(test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 16;
    defaults.lr = 0.02f;
    defaults.train_size = 768;
    defaults.test_size = 500;
    defaults.epochs = 3;
    flags = parse_flags(argc, argv,
                        "Exercise 1: ResNet-18 on up to 16 devices, the same minibatches for all.",
                        "batch-size lr epochs seed train-size test-size data check", defaults);
    if (flags.epochs > MAX_EPOCHS) die_usage("--epochs 1 to 16", "that takes very long");
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
