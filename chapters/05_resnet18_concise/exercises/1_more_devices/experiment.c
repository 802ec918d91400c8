// experiment.c: what k devices learn (ResNet-18 with a quarter of the channels), what batch size
// and learning rate do to that, and what a step on k devices costs (the whole ResNet-18). Times are
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

enum { MOST_EPOCHS = 16, MOST_DEVICES = 16 };

typedef struct Lab {
    const Flags *flags;
    FILE *csv;
    Dataset *train_data;
    DataIter *test_iter;
    const char *machine;
} Lab;
static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

// Each run on the same images. The CSV has a row of each epoch: "learning" is what k devices learn,
// "settings" what one does with other minibatches and learning rates.
typedef struct Run {
    const char *part;
    int k, batch_times;
    float lr_times;
    BatchNormMode bn;
} Run;
static const Run runs[] = {{"learning", 1, 1, 1, BN_LOCAL},  {"learning", 4, 1, 1, BN_LOCAL},
                           {"learning", 16, 1, 1, BN_LOCAL}, {"learning", 16, 1, 1, BN_SYNC},
                           {"settings", 1, 1, 1, BN_LOCAL},  {"settings", 1, 1, 5, BN_LOCAL},
                           {"settings", 1, 2, 1, BN_LOCAL},  {"settings", 1, 2, 5, BN_LOCAL}};

static void train(const Lab *lab, Module *net, const Run *r, Table *t) {
    double loss[MOST_EPOCHS], accuracy[MOST_EPOCHS];
    int batch_size = r->batch_times * lab->flags->batch_size, epochs = lab->flags->epochs;
    float lr = r->lr_times * lab->flags->lr;
    DataParallel dp = network_on(net, r->k, r->bn, lab->flags->seed);
    DataIter *iter = data_iter_new(lab->train_data, batch_size, true, lab->flags->seed);
    for (int epoch = 0; epoch < epochs; epoch++) {
        loss[epoch] = train_epoch(&dp, iter, epoch, lr);
        accuracy[epoch] = evaluate_accuracy_gpus(&dp, lab->test_iter);
    }
    if (r->bn == BN_LOCAL)
        dp.bn = BN_AVERAGED; // the same training, evaluated with other statistics
    double averaged = evaluate_accuracy_gpus(&dp, lab->test_iter);
    table_numbers(t, r->k);
    table_text(t, "%s", name_of(r->bn));
    table_numbers(t, batch_size, (double)lr, data_iter_batches(iter), loss[0], loss[epochs - 1]);
    table_add_numbers(t, (size_t)epochs, accuracy);
    table_numbers(t, averaged);
    for (int epoch = 0; epoch < epochs; epoch++)
        fprintf(lab->csv, "%s,%d,%s,%d,%g,%d,%.6f,%.4f,%.4f,,,,,,,\n", r->part, r->k,
                name_of(r->bn), batch_size, (double)lr, epoch + 1, loss[epoch], accuracy[epoch],
                averaged);
    data_iter_free(iter);
    leave_devices(net, lab->flags->seed);
}

// A step of the whole network: prints and writes a row, returns the MB in use on the first device.
static double measure_cost(const Lab *lab, Module *net, int k, BatchNormMode bn, Table *t) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double seconds = INFINITY, modelled = NAN, all_mb = 0;
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
    }
    double mb = (double)device_bytes(dp.devices[0]) / 1e6;
    double counted = (double)ledger_bytes_between_devices() / 1e6;
    for (int i = 0; i < k; i++) all_mb += (double)device_bytes(dp.devices[i]) / 1e6;
    table_numbers(t, k);
    table_text(t, "%s", name_of(bn));
    table_numbers(t, seconds, modelled, counted, (double)bytes_of_step(net, k, bn) / 1e6, mb,
                  all_mb);
    fprintf(lab->csv, "costs,%d,%s,%d,,,,,,%.5f,%.3f,%.1f,%.1f,%.8g,,%s\n", k, name_of(bn),
            lab->flags->batch_size, seconds, counted, mb, all_mb, modelled, lab->machine);
    data_iter_free(iter);
    leave_devices(net, lab->flags->seed);
    return mb;
}

// An epoch of the book's images, with one minibatch for all devices together or one for each.
static void model_epochs(const Lab *lab, Module *net, const char *way, bool for_each, Table *t) {
    enum { IMAGES = 60000, PIXELS = 28, BATCH = 256 };
    double one = NAN;
    for (int k = 1; k <= MOST_DEVICES && machine_has_devices(modelled_machine(), k); k *= 2) {
        int batch_size = for_each ? k * BATCH : BATCH;
        ModelledEpoch e = modelled_epoch(net, k, BN_LOCAL, IMAGES, PIXELS, batch_size);
        if (k == 1) one = e.seconds;
        table_text(t, "%s", way);
        table_numbers(t, k, batch_size, e.seconds, one / e.seconds);
        fprintf(lab->csv, "%s,%d,local,%d,,,,,,,,,,%.8g,%.6f,%s\n", way, k, batch_size, e.seconds,
                e.copies, lab->machine);
    }
}

static void compare_all(const Lab *lab, Module *narrow, Module *net) {
    double mb[MOST_DEVICES + 1];
    say("ResNet-18 with a quarter of the channels: loss in the first and the last epoch, accuracy "
        "after each, and at the end with statistics averaged over the devices");
    Table learned =
        TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), WHOLE("batch", .width = 5),
              DIGITS("lr", 3, .width = 4), WHOLE("updates"), FIXED("first", 4), FIXED("last", 4),
              FIXED("epoch %d", 3, .count = lab->flags->epochs), FIXED("averaged", 3));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) train(lab, narrow, &runs[i], &learned);
    Prediction memory = predict_first(
        "One device needs some memory to train ResNet-18 on a minibatch. If 16 devices share that "
        "minibatch, how much of that memory will each of them need, in percent?");
    say("\nResNet-18, a step (modelled: %s): seconds, MB between devices, counted and as you say, "
        "MB of memory",
        lab->machine);
    Table costs =
        TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), FIXED("here", 3), FIXED("modelled", 5),
              FIXED("counted", 1), FIXED("you say", 1), WHOLE("device 0"), WHOLE("all"));
    for (int k = 1; k <= MOST_DEVICES; k *= 2) mb[k] = measure_cost(lab, net, k, BN_LOCAL, &costs);
    measure_cost(lab, net, MOST_DEVICES, BN_SYNC, &costs);
    predict_compare(memory, 100 * mb[MOST_DEVICES] / mb[1], "%");
    if (!modelled_machine()) return;
    say("\nResNet-18, an epoch of 60,000 images of 28 x 28, modelled: %s", lab->machine);
    Table epochs = TABLE(NULL, WORDS("", 18), WHOLE("devices"), WHOLE("batch"),
                         DIGITS("seconds", 3), FIXED("times as fast", 2));
    model_epochs(lab, net, "same minibatch", false, &epochs);
    model_epochs(lab, net, "minibatch for each", true, &epochs);
}

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *train_data = small_images(flags->data, true, flags->train_size);
    Dataset *test_data = small_images(flags->data, false, flags->test_size);
    Module *narrow = quarter_resnet18(), *net = resnet18(FASHION_MNIST_CLASSES, 1);
    const Machine *machine = modelled_machine();
    Lab lab = {flags, csv, train_data, data_iter_new(test_data, 50, false, 0),
               machine ? machine->name : "no machine"};
    fprintf(csv, "part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,"
                 "step_mb,device_mb,all_mb,modelled_s,copies,machine\n");
    compare_all(&lab, narrow, net);
    module_free(narrow);
    module_free(net);
    data_iter_free(lab.test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
}

static void refuse_many_epochs(const Flags *flags) {
    if (flags->epochs > MOST_EPOCHS) die_usage("--epochs 1 to 16", "that takes very long");
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
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 1: ResNet-18 on up to 16 devices.",
                                     .flags = "batch-size lr epochs seed train-size test-size "
                                              "rounds",
                                     .defaults = defaults,
                                     .prepare = refuse_many_epochs,
                                     .experiment = experiment,
                                     .plot = "exercise_more_devices.gp"});
}
