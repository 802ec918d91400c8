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
#include "epochs.h"
#include "your_part.h"

#include <math.h>
enum { MOST_EPOCHS = 16, MOST_DEVICES = 16 };
static const int epoch_numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const Flags *f;
static FILE *csv;
static Dataset *images;
static const char *machine;
static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

// A training, and its rows of the CSV, one for each epoch: "learning" is what k devices learn,
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

static void train(const Run *r, Module *net, DataIter *test_iter, Table *t) {
    double loss[MOST_EPOCHS], accuracy[MOST_EPOCHS], lr = (double)(r->lr_times * f->lr);
    int batch_size = r->batch_times * f->batch_size;
    DataParallel dp = network_on(net, r->k, r->bn, f->seed);
    DataIter *iter = data_iter_new(images, batch_size, true, f->seed);
    for (int epoch = 0; epoch < f->epochs; epoch++) {
        loss[epoch] = train_epoch(&dp, iter, epoch, (float)lr);
        accuracy[epoch] = evaluate_accuracy_gpus(&dp, test_iter);
    }
    if (r->bn == BN_LOCAL) dp.bn = BN_AVERAGED; // the same training, with other statistics
    double averaged = evaluate_accuracy_gpus(&dp, test_iter);
    table_numbers(t, r->k);
    table_text(t, "%s", name_of(r->bn));
    table_numbers(t, batch_size, lr, data_iter_batches(iter), loss[0], loss[f->epochs - 1]);
    table_add_numbers(t, (size_t)f->epochs, accuracy);
    table_numbers(t, averaged);
    for (int e = 0; e < f->epochs; e++)
        fprintf(csv, "%s,%d,%s,%d,%g,%d,%.6f,%.4f,%.4f,,,,,,,\n", r->part, r->k, name_of(r->bn),
                batch_size, lr, e + 1, loss[e], accuracy[e], averaged);
    data_iter_free(iter);
    leave_devices(net, f->seed);
}

static void compare_learning(DataIter *test_iter) {
    Module *net = quarter_resnet18();
    say("ResNet-18 with a quarter of the channels: loss in the first and the last epoch, accuracy "
        "after each, and at the end with statistics averaged over the devices");
    Table t =
        TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), WHOLE("batch", .width = 5),
              DIGITS("lr", 3, .width = 4), WHOLE("updates"), FIXED("first", 4), FIXED("last", 4),
              FIXED("acc. %d", 3, .count = f->epochs, .of = epoch_numbers), FIXED("avg.", 3));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) train(&runs[i], net, test_iter, &t);
    module_free(net);
}

// A step: prints and writes a row, returns the MB in use on the first device.
static double measure_cost(Module *net, int k, BatchNormMode bn, Table *t) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double seconds = INFINITY, modelled = NAN, all_mb = 0;
    DataParallel dp = network_on(net, k, bn, f->seed);
    DataIter *iter = data_iter_new(images, f->batch_size, false, 0);
    data_iter_first(iter, &X, &y);
    for (int round = 0; round < rounds; round++) {
        Timer timer = {0};
        ledger_reset();
        timer_start(&timer);
        train_step(&dp, X, y, f->lr, losses);
        seconds = fmin(seconds, timer_stop(&timer));
        modelled = timer_modelled_avg(&timer);
    }
    double sent = (double)ledger_bytes_between_devices() / 1e6;
    double said = (double)bytes_of_step(net, k, bn) / 1e6;
    double mb = (double)device_bytes(dp.devices[0]) / 1e6;
    for (int i = 0; i < k; i++) all_mb += (double)device_bytes(dp.devices[i]) / 1e6;
    table_numbers(t, k);
    table_text(t, "%s", name_of(bn));
    table_numbers(t, seconds, modelled, sent, said, mb, all_mb);
    fprintf(csv, "costs,%d,%s,%d,,,,,,%.5f,%.3f,%.1f,%.1f,%.8g,,%s\n", k, name_of(bn),
            f->batch_size, seconds, sent, mb, all_mb, modelled, machine);
    data_iter_free(iter);
    leave_devices(net, f->seed);
    return mb;
}

static void compare_costs(Module *net) {
    double mb[MOST_DEVICES + 1];
    Prediction memory = predict_first(
        "One device needs some memory to train ResNet-18 on a minibatch. If 16 devices share that "
        "minibatch, how much of that memory will each of them need, in percent?");
    say("\nResNet-18, a step (modelled: %s): seconds, MB sent, MB of memory", machine);
    Table t = TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), FIXED("here", 3), FIXED("modelled", 5),
                    FIXED("sent", 1), FIXED("you say", 1), WHOLE("device 0"), WHOLE("all"));
    for (int k = 1; k <= MOST_DEVICES; k *= 2) mb[k] = measure_cost(net, k, BN_LOCAL, &t);
    measure_cost(net, MOST_DEVICES, BN_SYNC, &t);
    predict_compare(memory, 100 * mb[MOST_DEVICES] / mb[1], "%");
}

static void experiment(const Flags *flags, FILE *file) {
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    Dataset *test_data = small_images(flags->data, false, flags->test_size);
    DataIter *test_iter = data_iter_new(test_data, 50, false, 0);
    f = flags, csv = file;
    images = small_images(flags->data, true, flags->train_size);
    machine = modelled_machine() ? modelled_machine()->name : "no machine";
    fprintf(csv, "part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,"
                 "step_mb,device_mb,all_mb,modelled_s,copies,machine\n");
    compare_learning(test_iter);
    compare_costs(net);
    for (int each = 0; modelled_machine() && each < 2; each++)
        model_epochs(net, csv, each ? "minibatch for each" : "same minibatch", each);
    module_free(net);
    data_iter_free(test_iter);
    dataset_free(images);
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
    defaults.own = rounds_flag;
    defaults.quick_means = "--epochs 2 --rounds 2 --train-size 512 --test-size 200";
    return exercise_main(argc, argv,
                         &(Exercise){"Exercise 1: ResNet-18 on up to 16 devices.",
                                     "batch-size lr epochs seed train-size test-size", defaults,
                                     refuse_many_epochs, experiment, "exercise_more_devices.gp"});
}
