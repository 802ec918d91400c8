// experiment.c: what k devices learn (ResNet-18 with a quarter of the channels), what batch size and
// learning rate do to that, and what a step on k devices costs (the whole ResNet-18). Times are
// measured here, where all devices share the cores, and modelled on a machine with that many.
#include "common/base/error.h"
#include "common/device/timer.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/05_resnet18_concise/modelled_steps.h"
#include "your_part.h"

#include <math.h>

// What all runs have in common.
typedef struct Lab {
    const Flags *flags;
    FILE *csv;
    Dataset *train_data;
    DataIter *test_iter;
    const char *machine;
} Lab;

static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

// ## What k devices learn; batch size and learning rate on one

typedef struct Run {
    const char *part;
    int k;
    BatchNormMode bn;
    int batch_times;
    float lr_times;
} Run;

// Trains, and prints and writes what came out after each epoch. Besides, at the end, the accuracy
// with the statistics of batch norm averaged over the devices.
static void train(const Lab *lab, Module *net, const Run *r) {
    enum { MAX_EPOCHS = 16 };
    const Flags *f = lab->flags;
    double loss[MAX_EPOCHS], accuracy[MAX_EPOCHS];
    int batch_size = r->batch_times * f->batch_size;
    float lr = r->lr_times * f->lr;
    DataParallel dp = network_on(net, r->k, r->bn, f->seed);
    DataIter *iter = data_iter_new(lab->train_data, batch_size, true, f->seed);
    for (int epoch = 0; epoch < f->epochs; epoch++) {
        loss[epoch] = train_epoch(&dp, iter, epoch, lr);
        accuracy[epoch] = evaluate_accuracy_gpus(&dp, lab->test_iter);
    }
    double averaged = accuracy[f->epochs - 1];
    if (r->bn == BN_LOCAL && r->k > 1) {
        dp.bn = BN_AVERAGED;
        averaged = evaluate_accuracy_gpus(&dp, lab->test_iter);
    }
    printf("  %7d %-5s %6d %6g %7d %7.4f %7.4f   %6.3f  ", r->k, name_of(r->bn), batch_size,
           (double)lr, data_iter_batches(iter), loss[0], loss[f->epochs - 1], averaged);
    for (int epoch = 0; epoch < f->epochs; epoch++) {
        printf(" %.3f", accuracy[epoch]);
        fprintf(lab->csv, "%s,%d,%s,%d,%g,%d,%.6f,%.4f,%.4f,,,,,,,\n", r->part, r->k,
                name_of(r->bn), batch_size, (double)lr, epoch + 1, loss[epoch], accuracy[epoch],
                averaged);
    }
    printf("\n");
    data_iter_free(iter);
    leave_devices(net, f->seed);
}

static void compare_learning(const Lab *lab) {
    static const Run runs[] = {
        {"learning", 1, BN_LOCAL, 1, 1},  {"learning", 4, BN_LOCAL, 1, 1},
        {"learning", 16, BN_LOCAL, 1, 1}, {"learning", 16, BN_SYNC, 1, 1},
        {"settings", 1, BN_LOCAL, 1, 1},  {"settings", 1, BN_LOCAL, 1, 5},
        {"settings", 1, BN_LOCAL, 2, 1},  {"settings", 1, BN_LOCAL, 2, 5}};
    Module *net = quarter_resnet18();
    printf("  ResNet-18 with a quarter of the channels; test accuracy, and that with averaged\n"
           "  statistics of batch norm at the end\n"
           "                                updates  loss in epoch   aver-   accuracy\n"
           "  devices bn     batch     lr  an epoch      1  the last    aged   after each epoch\n");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) train(lab, net, &runs[i]);
    module_free(net);
}

// ## What a step of k devices costs

// Returns the MB in use on the first device.
static double measure_cost(const Lab *lab, Module *net, int k, BatchNormMode bn, Table *t) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double seconds = INFINITY, modelled = NAN, bytes = 0, all_mb = 0;
    DataParallel dp = network_on(net, k, bn, lab->flags->seed);
    DataIter *iter = data_iter_new(lab->train_data, lab->flags->batch_size, false, 0);
    data_iter_first(iter, &X, &y);
    for (int round = 0; round < lab->flags->rounds; round++) {
        Timer timer = {0};
        ledger_reset();
        timer_start(&timer);
        train_step(&dp, X, y, lab->flags->lr, losses);
        seconds = fmin(seconds, timer_stop(&timer));
        modelled = timer_modelled_avg(&timer);
        bytes = (double)ledger_bytes_between_devices();
    }
    double device_mb = (double)device_bytes(dp.devices[0]) / 1e6;
    for (int i = 0; i < k; i++) all_mb += (double)device_bytes(dp.devices[i]) / 1e6;
    table_numbers(t, k);
    table_text(t, "%s", name_of(bn));
    table_numbers(t, seconds, modelled, bytes / 1e6, (double)bytes_of_step(net, k, bn) / 1e6,
                  device_mb, all_mb);
    fprintf(lab->csv, "costs,%d,%s,%d,,,,,,%.5f,%.3f,%.1f,%.1f,%.8g,,%s\n", k, name_of(bn),
            lab->flags->batch_size, seconds, bytes / 1e6, device_mb, all_mb, modelled,
            lab->machine);
    data_iter_free(iter);
    leave_devices(net, lab->flags->seed);
    return device_mb;
}

static void compare_costs(const Lab *lab, Module *net) {
    double one = 0, mb = 0;
    Prediction memory = predict_first(
        "One device needs some memory to train ResNet-18 on a minibatch. If 16 devices share that "
        "minibatch, how much of that memory will each of them need, in percent?");
    say("\n  ResNet-18, a step with a minibatch of %d (here: fastest of %d; modelled: %s): seconds, "
        "MB between devices, counted and as you say, MB of memory",
        lab->flags->batch_size, lab->flags->rounds, lab->machine);
    Table t = TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), FIXED("here", 3), FIXED("modelled", 5),
                    FIXED("counted", 1), FIXED("you say", 1), WHOLE("device 0"), WHOLE("all"));
    for (int k = 1; k <= 16; k *= 2) {
        mb = measure_cost(lab, net, k, BN_LOCAL, &t);
        if (k == 1) one = mb;
    }
    measure_cost(lab, net, 16, BN_SYNC, &t);
    predict_compare(memory, 100 * mb / one, "%");
}

// ## An epoch of the book's images on a machine that need not be there

static void model_epochs(const Lab *lab, Module *net) {
    enum { IMAGES = 60000, PIXELS = 28, BATCH = 256 };
    static const char *const ways[] = {"same minibatch", "minibatch for each"};
    if (!modelled_machine()) return;
    say("\n  ResNet-18, an epoch of %d images of %d x %d, modelled: %s; with %d images for all "
        "devices (same minibatch), or for each", IMAGES, PIXELS, PIXELS, lab->machine, BATCH);
    Table t = TABLE(NULL, WORDS("way", 18), WHOLE("devices"), DIGITS("seconds", 3),
                    FIXED("times as fast", 2));
    for (int way = 0; way < 2; way++) {
        double one = 0;
        for (int k = 1; k <= 16 && machine_has_devices(modelled_machine(), k); k *= 2) {
            int batch_size = way == 0 ? BATCH : k * BATCH;
            ModelledEpoch e = modelled_epoch(net, k, BN_LOCAL, IMAGES, PIXELS, batch_size);
            if (k == 1) one = e.seconds;
            table_text(&t, "%s", ways[way]);
            table_numbers(&t, k, e.seconds, one / e.seconds);
            fprintf(lab->csv, "%s,%d,local,%d,,,,,,,,,,%.8g,%.6f,%s\n", ways[way], k, batch_size,
                    e.seconds, e.copies, lab->machine);
        }
    }
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *test_data = small_images(flags->data, false, flags->test_size);
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Lab lab = {.flags = flags,
               .csv = csv,
               .train_data = small_images(flags->data, true, flags->train_size),
               .test_iter = data_iter_new(test_data, 50, false, 0),
               .machine = modelled_machine() ? modelled_machine()->name : "no machine"};
    say("%d images of 14 x 14, minibatches for all devices together, accuracy on %d test images\n",
        flags->train_size, flags->test_size);
    fprintf(csv, "part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,"
                 "step_mb,device_mb,all_mb,modelled_s,copies,machine\n");
    compare_learning(&lab);
    compare_costs(&lab, net);
    model_epochs(&lab, net);
    module_free(net);
    data_iter_free(lab.test_iter);
    dataset_free(lab.train_data);
    dataset_free(test_data);
}

static void refuse_many_epochs(const Flags *flags) {
    if (flags->epochs > 16) die_usage("--epochs 1 to 16", "that takes very long");
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
    static Exercise exercise = {
        .about = "Exercise 1: ResNet-18 on up to 16 devices, the same minibatches for all.",
        .flags = "batch-size lr epochs seed train-size test-size rounds",
        .prepare = refuse_many_epochs,
        .experiment = experiment,
        .plot = "exercise_more_devices.gp"};
    exercise.defaults = defaults;
    return exercise_main(argc, argv, &exercise);
}
