// experiment.c: what k devices learn (ResNet-18 with a quarter of the channels), what epochs, batch
// size and learning rate do to that, and what a step on k devices costs (the whole ResNet-18).
// Times are measured here, where all devices share the cores, and modelled on a machine with that
// many.
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "epochs.h"
#include "your_part.h"

#include <math.h>

enum { MAX_EPOCHS = 16 };

// What all runs have in common.
typedef struct Setting {
    const Flags *flags;
    Dataset *train_data, *test_data;
    DataIter *test_iter;
} Setting;

typedef struct Run {
    int k, batch_size;
    BatchNormMode bn;
    float lr;
    double loss[MAX_EPOCHS], accuracy[MAX_EPOCHS]; // after each epoch
    double averaged; // accuracy after the last, with the statistics averaged over the devices
} Run;

static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

static void train(const Setting *s, Module *net, Run *r) {
    int epochs = s->flags->epochs;
    DataParallel dp = network_on(net, r->k, r->bn, s->flags->seed);
    DataIter *iter = data_iter_new(s->train_data, r->batch_size, true, s->flags->seed);
    for (int epoch = 0; epoch < epochs; epoch++) {
        r->loss[epoch] = train_epoch(&dp, iter, epoch, r->lr);
        r->accuracy[epoch] = evaluate_accuracy_gpus(&dp, s->test_iter);
        EXPECT(isfinite(r->loss[epoch]), "take a smaller --lr", "k = %d, lr %g: the loss became %g",
               r->k, (double)r->lr, r->loss[epoch]);
    }
    r->averaged = r->accuracy[epochs - 1];
    if (r->bn == BN_LOCAL && r->k > 1) {
        dp.bn = BN_AVERAGED; // the same training, evaluated with other statistics
        r->averaged = evaluate_accuracy_gpus(&dp, s->test_iter);
    }
    data_iter_free(iter);
    leave_devices(net, s->flags->seed);
}

// ## What k devices learn

enum { ONE, LOCAL_4, LOCAL_16, SYNC_16, NUM_RUNS };
static const Run all_runs[NUM_RUNS] = {[ONE] = {.k = 1, .bn = BN_LOCAL},
                                       [LOCAL_4] = {.k = 4, .bn = BN_LOCAL},
                                       [LOCAL_16] = {.k = 16, .bn = BN_LOCAL},
                                       [SYNC_16] = {.k = 16, .bn = BN_SYNC}};

static void compare_learning(const Setting *s, Module *net, Run runs[NUM_RUNS]) {
    const Flags *flags = s->flags;
    printf("  ResNet-18 with a quarter of the channels, %d epochs of %d images, lr %g\n"
           "              images per    loss in epoch            test accuracy, with statistics\n"
           "  devices bn    device      1         %-2d            of each device   averaged\n",
           flags->epochs, s->train_data->count, (double)flags->lr, flags->epochs);
    for (int i = 0; i < NUM_RUNS; i++) {
        Run *r = &runs[i];
        *r = all_runs[i];
        r->batch_size = flags->batch_size;
        r->lr = flags->lr;
        train(s, net, r);
        printf("  %7d %-5s %6.3g %10.4f %10.4f %20.3f %12.3f\n", r->k, name_of(r->bn),
               (double)r->batch_size / r->k, r->loss[0], r->loss[flags->epochs - 1],
               r->accuracy[flags->epochs - 1], r->averaged);
    }
}

// ## Epochs, batch size, learning rate
//
// These are tried on one device, as their effect has nothing to do with the number of devices.

enum { NUM_SETTINGS = 4 };
static const struct {
    int batch_times;
    float lr_times;
} all_settings[NUM_SETTINGS] = {{1, 1}, {1, 5}, {2, 1}, {2, 5}};

// `one` is the run with the first of the settings.
static void compare_settings(const Setting *s, Module *net, const Run *one,
                             Run settings[NUM_SETTINGS]) {
    printf("\n  The same network on one device\n"
           "  batch size      lr   updates/epoch   test accuracy after each epoch\n");
    for (int i = 0; i < NUM_SETTINGS; i++) {
        Run *r = &settings[i];
        *r = *one;
        r->batch_size = all_settings[i].batch_times * s->flags->batch_size;
        r->lr = all_settings[i].lr_times * s->flags->lr;
        if (i > 0) train(s, net, r);
        printf("  %10d %7g %15d  ", r->batch_size, (double)r->lr,
               (s->train_data->count + r->batch_size - 1) / r->batch_size);
        for (int epoch = 0; epoch < s->flags->epochs; epoch++) printf(" %.3f", r->accuracy[epoch]);
        printf("\n");
    }
}

// ## What k devices cost
//
// A few steps of the whole ResNet-18.

typedef struct Cost {
    int k;
    BatchNormMode bn;
    double step, modelled;    // seconds: measured, the fastest; modelled, NAN without a machine
    double bytes;             // between devices
    double device_mb, all_mb; // in use on the first device, on all
} Cost;

enum { COST_1, COST_2, COST_4, COST_8, COST_16, COST_SYNC, NUM_COSTS };
static const Cost all_costs[NUM_COSTS] = {
    [COST_1] = {.k = 1}, [COST_2] = {.k = 2},   [COST_4] = {.k = 4},
    [COST_8] = {.k = 8}, [COST_16] = {.k = 16}, [COST_SYNC] = {.k = 16, .bn = BN_SYNC}};

static void measure_cost(const Setting *s, Module *net, Cost *c) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataParallel dp = network_on(net, c->k, c->bn, s->flags->seed);
    DataIter *iter = data_iter_new(s->train_data, s->flags->batch_size, false, s->flags->seed);
    data_iter_first(iter, &X, &y);
    c->step = INFINITY;
    for (int step = 0; step < s->flags->rounds; step++) {
        Timer timer = {0};
        ledger_reset();
        timer_start(&timer);
        train_step(&dp, X, y, s->flags->lr, losses);
        c->step = fmin(c->step, timer_stop(&timer));
        c->modelled = timer_modelled_avg(&timer);
        c->bytes = (double)ledger_bytes_between_devices();
    }
    double said = (double)bytes_of_step(net, c->k, c->bn);
    EXPECT(said == c->bytes, "the check has found nothing; is it right for networks with branches?",
           "bytes_of_step(), ResNet-18, k = %d, %s: %.0f, expected %.0f, which were counted", c->k,
           name_of(c->bn), said, c->bytes);
    c->device_mb = (double)device_bytes(dp.devices[0]) / 1e6;
    for (int i = 0; i < c->k; i++) c->all_mb += (double)device_bytes(dp.devices[i]) / 1e6;
    data_iter_free(iter);
    leave_devices(net, s->flags->seed);
}

static const char *machine_name(void) {
    return modelled_machine() ? modelled_machine()->name : "no machine";
}

static void compare_costs(const Setting *s, Module *net, Cost costs[NUM_COSTS]) {
    say("\n  ResNet-18, a step with a minibatch of %d (measured: fastest of %d; modelled: %s): "
        "seconds, "
        "MB between devices, MB of memory",
        s->flags->batch_size, s->flags->rounds, machine_name());
    Table t = TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), FIXED("here", 3), FIXED("modelled", 5),
                    FIXED("between", 1), WHOLE("device 0"), WHOLE("all"));
    for (int i = 0; i < NUM_COSTS; i++) {
        Cost *c = &costs[i];
        *c = all_costs[i];
        measure_cost(s, net, c);
        table_numbers(&t, c->k);
        table_text(&t, "%s", name_of(c->bn));
        table_numbers(&t, c->step, c->modelled, c->bytes / 1e6, c->device_mb, c->all_mb);
    }
}

// ## Figures for the plot

static void write_run(FILE *csv, const char *part, const Run *r, int epochs) {
    for (int epoch = 0; epoch < epochs; epoch++)
        fprintf(csv, "%s,%d,%s,%d,%g,%d,%.6f,%.4f,%.4f,,,,,,,\n", part, r->k, name_of(r->bn),
                r->batch_size, (double)r->lr, epoch + 1, r->loss[epoch], r->accuracy[epoch],
                r->averaged);
}

static void write_cost(FILE *csv, const Cost *c, int batch_size) {
    fprintf(csv, "costs,%d,%s,%d,,,,,,%.5f,%.3f,%.1f,%.1f,%.8g,,%s\n", c->k, name_of(c->bn),
            batch_size, c->step, c->bytes / 1e6, c->device_mb, c->all_mb, c->modelled,
            machine_name());
}

// ## The experiment

static void compare_all(const Setting *s, FILE *csv) {
    const Flags *flags = s->flags;
    Run runs[NUM_RUNS], settings[NUM_SETTINGS];
    Cost costs[NUM_COSTS];
    Module *narrow = quarter_resnet18(), *net = resnet18(FASHION_MNIST_CLASSES, 1);
    compare_learning(s, narrow, runs);
    compare_settings(s, narrow, &runs[ONE], settings);
    Prediction memory = predict_first(
        "One device needs some memory to train ResNet-18 on a minibatch. If 16 devices share that "
        "minibatch, how much of that memory will each of them need, in percent?");
    compare_costs(s, net, costs);
    predict_compare(memory, 100 * costs[COST_16].device_mb / costs[COST_1].device_mb, "%");
    Epochs epochs = model_epochs(net);
    module_free(narrow);
    module_free(net);
    fprintf(csv, "part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,"
                 "step_mb,device_mb,all_mb,modelled_s,copies,machine\n");
    for (int i = 0; i < NUM_RUNS; i++) write_run(csv, "learning", &runs[i], flags->epochs);
    for (int i = 0; i < NUM_SETTINGS; i++) write_run(csv, "settings", &settings[i], flags->epochs);
    for (int i = 0; i < NUM_COSTS; i++) write_cost(csv, &costs[i], flags->batch_size);
    write_epochs(csv, &epochs);
}

static void experiment(const Flags *flags, FILE *csv) {
    Setting s = {.flags = flags};
    s.train_data = small_images(flags->data, true, flags->train_size);
    s.test_data = small_images(flags->data, false, flags->test_size);
    s.test_iter = data_iter_new(s.test_data, 50, false, 0);
    say("Question: what happens on 16 devices, and with other batch sizes, learning rates and "
        "epochs?");
    say("Images of 14 x 14, minibatches of %d for all devices together, accuracy on %d test "
        "images\n",
        flags->batch_size, s.test_data->count);
    compare_all(&s, csv);
    data_iter_free(s.test_iter);
    dataset_free(s.train_data);
    dataset_free(s.test_data);
}

static void refuse_many_epochs(const Flags *flags) {
    if (flags->epochs > MAX_EPOCHS) die_usage("--epochs 1 to 16", "that takes very long");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 16;
    defaults.lr = 0.02f;
    defaults.train_size = 768;
    defaults.test_size = 500;
    defaults.epochs = 3;
    defaults.rounds = 4;
    defaults.quick_means = "--train-size 512 --test-size 200 --epochs 2 --rounds 2";
    return exercise_main(
        argc, argv,
        &(Exercise){
            .about = "Exercise 1: ResNet-18 on up to 16 devices, the same minibatches for all.",
            .flags = "batch-size lr epochs seed train-size test-size rounds",
            .defaults = defaults,
            .prepare = refuse_many_epochs,
            .parts = check_parts,
            .passed = "with synchronised batch norm k devices make the updates of one; the bytes "
                      "are those of the formula",
            .experiment = experiment,
            .plot = "exercise_more_devices.gp"});
}
