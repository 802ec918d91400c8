// experiment.c: what k devices learn (ResNet-18 with a quarter of the channels), and what a step on
// k devices costs (the whole ResNet-18). Times are measured here, where all devices share the
// cores, and modelled on a machine with that many.
#include "common/device/timer.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/05_resnet18_concise/behind/modelled_steps.h"
#include "chapters/05_resnet18_concise/exercises/small_networks.h"

#include <math.h>

enum { MOST_DEVICES = 16 };
static const Flags *f;
static FILE *csv;
static Dataset *images;
static const char *name_of(BatchNormMode bn) { return bn == BN_SYNC ? "sync" : "local"; }

// A training, and its rows of the CSV, one for each epoch.
static void train(Module *net, int k, BatchNormMode bn, DataIter *test_iter, Table *t) {
    double first = NAN, loss = NAN, accuracy = NAN;
    DataParallel dp = network_on(net, k, bn, f->seed);
    DataIter *iter = data_iter_new(images, f->batch_size, true, f->seed);
    for (int epoch = 0; epoch < f->epochs; epoch++) {
        double sum = 0, trained = 0;
        data_iter_start(iter, epoch);
        for (Tensor *X, *y, *losses[MAX_DEVICES]; data_iter_next(iter, &X, &y);) {
            train_step(&dp, X, y, f->lr, losses);
            for (int i = 0; i < k; i++) sum += (double)item(losses[i]);
            trained += X->shape[0];
        }
        loss = sum / trained;
        accuracy = evaluate_accuracy_gpus(&dp, test_iter);
        if (epoch == 0) first = loss;
        fprintf(csv, "learning,%d,%s,%d,%d,%.6f,%.4f,,,,,,\n", k, name_of(bn), f->batch_size,
                epoch + 1, loss, accuracy);
    }
    table_numbers(t, k);
    table_text(t, "%s", name_of(bn));
    table_numbers(t, data_iter_batches(iter), first, loss, accuracy);
    data_iter_free(iter);
    leave_devices(net, f->seed);
}

static void compare_learning(void) {
    Module *net = quarter_resnet18();
    Dataset *test_data = small_images(f->data, false, f->test_size);
    DataIter *test_iter = data_iter_new(test_data, 50, false, 0);
    say("ResNet-18 with a quarter of the channels: loss in the first and the last epoch, and "
        "test accuracy");
    Table t = TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), WHOLE("updates"), FIXED("first", 4),
                    FIXED("last", 4), FIXED("accuracy", 3));
    for (int k = 1; k <= MOST_DEVICES; k *= 4) train(net, k, BN_LOCAL, test_iter, &t);
    train(net, MOST_DEVICES, BN_SYNC, test_iter, &t);
    data_iter_free(test_iter);
    dataset_free(test_data);
    module_free(net);
}

// A step: prints and writes a row, returns the MB in use on the first device.
static double measure_cost(Module *net, int k, BatchNormMode bn, Table *t) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    double seconds = INFINITY, modelled = NAN;
    DataParallel dp = network_on(net, k, bn, f->seed);
    DataIter *iter = data_iter_new(images, f->batch_size, false, 0);
    data_iter_first(iter, &X, &y);
    for (int round = 0; round < rounds; round++) {
        Timer timer = {0};
        ledger_reset();
        timer_start(&timer);
        train_step(&dp, X, y, f->lr, losses);
        seconds = fmin(seconds, timer_stop(&timer));
        modelled = timer.modelled_sum;
    }
    double sent = (double)ledger_bytes_between_devices() / 1e6;
    double mb = (double)device_bytes(dp.devices[0]) / 1e6;
    table_numbers(t, k);
    table_text(t, "%s", name_of(bn));
    table_numbers(t, seconds, modelled, sent, (double)step_bytes(&dp) / 1e6, mb);
    fprintf(csv, "costs,%d,%s,%d,,,,%.5f,%.3f,%.1f,%.8g,,%s\n", k, name_of(bn), f->batch_size,
            seconds, sent, mb, modelled, modelled_machine_name());
    data_iter_free(iter);
    leave_devices(net, f->seed);
    return mb;
}

static void compare_costs(Module *net) {
    double mb[MOST_DEVICES + 1];
    Prediction memory = predict_first(
        "One device needs some memory to train ResNet-18 on a minibatch. If 16 devices share that "
        "minibatch, how much of that memory will each of them need, in percent?");
    say("\nResNet-18, a step (modelled: %s): seconds, MB sent, MB of memory",
        modelled_machine_name());
    Table t = TABLE(NULL, WHOLE("devices"), WORDS("bn", 5), FIXED("here", 3), FIXED("modelled", 5),
                    FIXED("sent", 1), FIXED("formula", 1), WHOLE("device 0"));
    for (int k = 1; k <= MOST_DEVICES; k *= 2) mb[k] = measure_cost(net, k, BN_LOCAL, &t);
    measure_cost(net, MOST_DEVICES, BN_SYNC, &t);
    predict_compare(memory, 100 * mb[MOST_DEVICES] / mb[1], "%");
}

// Epochs of the book's images, with a minibatch of 256 for each device or one for all together.
static void model_epochs(Module *net, const char *way, bool for_each) {
    const Machine *machine = modelled_machine();
    double one = NAN;
    say("\nResNet-18, an epoch of 60,000 images of 28 x 28, modelled: %s; %s", machine->name, way);
    Table t = TABLE(NULL, WHOLE("devices"), WHOLE("batch"), DIGITS("seconds", 3),
                    FIXED("speed-up", 2), FIXED("copies", 0, .unit = "%"));
    for (int k = 1; k <= MOST_DEVICES && machine_has_devices(machine, k); k *= 2) {
        int batch_size = for_each ? k * 256 : 256;
        ModelledEpoch e = modelled_epoch(net, k, BN_LOCAL, 60000, 28, batch_size);
        if (k == 1) one = e.seconds;
        table_numbers(&t, k, batch_size, e.seconds, one / e.seconds, e.copies);
        fprintf(csv, "%s,%d,local,%d,,,,,,,%.8g,%.6f,%s\n", way, k, batch_size, e.seconds, e.copies,
                machine->name);
    }
}

static void experiment(const Flags *flags, FILE *file) {
    Module *net = resnet18(FASHION_MNIST_CLASSES, 1);
    f = flags, csv = file;
    images = small_images(flags->data, true, flags->train_size);
    fprintf(csv, "part,devices,bn,batch,epoch,loss,accuracy,step_s,step_mb,device_mb,modelled_s,"
                 "copies,machine\n");
    compare_learning();
    compare_costs(net);
    for (int each = 0; modelled_machine() && each < 2; each++)
        model_epochs(net, each ? "minibatch for each" : "same minibatch", each);
    module_free(net);
    dataset_free(images);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){
            .about = "Exercise 1: ResNet-18 on up to 16 devices.",
            .flags = "batch-size=16 lr=0.02 epochs=3 seed train-size=768 test-size=500",
            .experiment = experiment,
            .plot = "exercise_more_devices.gp",
            .program = {.own = rounds_flag,
                        .quick_means = "--epochs 2 --rounds 2 --train-size 512 --test-size 200"}});
}
