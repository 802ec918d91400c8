// experiment.c: LeNet on 1, 2 and 4 devices, k of them with minibatches of k*b and with learning
// rates from that of one device to k times that. What changes: updates, accuracy, time?
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/device/timer.h"
#include "common/program/exercise.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <stdlib.h>

static void train(const Flags *flags, int k, float lr, const Dataset *train_data,
                  DataIter *test_iter, FILE *csv, Table *t) {
    Replicas r;
    int updates = 0; // of an epoch
    double accuracy = 0, *seconds = xcalloc((size_t)flags->epochs, sizeof *seconds);
    replicas_open(&r, k, flags->seed);
    for (int epoch = 0; epoch < flags->epochs; epoch++) {
        Timer timer = {0};
        timer_start(&timer);
        updates = train_epoch(&r, train_data, epoch, flags->batch_size, lr, flags->seed);
        seconds[epoch] = timer_stop(&timer);
        accuracy = evaluate_accuracy_gpu(lenet, r.params[0], test_iter, r.devices[0]);
        fprintf(csv, "%d,%g,%d,%d,%.4f\n", k, (double)lr, epoch + 1, (epoch + 1) * updates,
                accuracy);
    }
    table_numbers(t, k, k * flags->batch_size, lr, updates, flags->epochs * updates,
                  median(seconds, flags->epochs), accuracy);
    free(seconds);
    replicas_close(&r);
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *train_data = fashion_mnist_open(flags->data, true, flags->train_size);
    Dataset *test_data = fashion_mnist_open(flags->data, false, 2500);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    say("Question: what happens with minibatches of k*b images on k devices?");
    say("b = %d, %d training images, %d epoch%s, accuracy on %d test images\n", flags->batch_size,
        train_data->count, flags->epochs, flags->epochs > 1 ? "s" : "", test_data->count);
    Table t = TABLE(NULL, WHOLE("devices"), WHOLE("batch"), DIGITS("lr", 2), WHOLE("updates/epoch"),
                    WHOLE("updates"), FIXED("sec/epoch", 2), FIXED("test acc", 3));
    fprintf(csv, "devices,lr,epoch,updates,test_acc\n");
    // 1 device, then 2 and 4 with its lr, twice that, ..., k times that.
    for (int k = 1; k <= 4; k *= 2)
        for (int times = 1; times <= k; times *= 2)
            train(flags, k, (float)times * flags->lr, train_data, test_iter, csv, &t);
    data_iter_free(test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
}

static void prepare(const Flags *flags) { choose_allreduce(flags->allreduce); }

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){
            .about = "Exercise 1: minibatches of k*b images on k devices.\n"
                     "--batch-size is b, the images of each device: k devices have minibatches of "
                     "k*b.",
            .flags = "batch-size=32 lr=0.1 epochs=8 seed train-size=10240 allreduce -machine",
            .prepare = prepare,
            .experiment = experiment,
            .plot = "exercise_larger_batches.gp",
            .program.quick_means = "--batch-size 16 --epochs 6 --train-size 5120"});
}
