// # Exercise 4: test accuracy, computed on all devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 4: "Implement multi-GPU test accuracy
// computation." In the book's train() one device evaluates the network, "although inefficient,
// since the other GPUs are idle".
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-4                   the question, the answer, the evidence
//   make exercise-04-4 ARGS=--check      only check the solution: seconds
#include "common/base/error.h"
#include "common/device/timer.h"
#include "chapters/03_split_batch/split_batch.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Your part
//
// The part (0..1) of the observations of data_iter that the network classifies correctly, computed
// on k devices: each has its copy of the parameters and gets its shard of each minibatch. Read
// evaluate_accuracy_gpu() in common/data/evaluate.c first. Two things to think of:
//   - a number that is read with item() after each minibatch makes the devices wait for each other;
//     let each device count for itself, and add the counts up at the end;
//   - add up counts, not accuracies: shards may be unequal, and the last minibatch is shorter.
static double evaluate_accuracy_gpus(Net *net, Tensor *device_params[][LENET_PARAMS],
                                     DataIter *data_iter, Device *const devices[], int k) {
    // SOLUTION (starter: return 0;)
    Tensor *correct[MAX_DEVICES], *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    double total = 0;
    long observations = 0;
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    set_grad_enabled(false);
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, X_shards, y_shards);
        for (int i = 0; i < k; i++)
            count_correct(correct[i], net(X_shards[i], device_params[i]), y_shards[i]);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) {
        total += (double)item(correct[i]);
        tensor_free(correct[i]);
    }
    return total / (double)observations;
    // END SOLUTION
}

// ## The check
//
// Counts are whole numbers, so the accuracy must be that of one device exactly. And the work must
// be shared: each device gets about 1/k of the images.

static void check_k(const Dataset *data, int batch_size, int k) {
    Replicas one, many;
    DataIter *iter = data_iter_new(data, batch_size, false, 0);
    replicas_open(&one, 1, 1);
    replicas_open(&many, k, 1);
    replicas_scale(&one, 10);
    replicas_scale(&many, 10);
    double expected = evaluate_accuracy_gpu(lenet, one.params[0], iter, one.devices[0]);
    ledger_reset();
    double came = evaluate_accuracy_gpus(lenet, many.params, iter, many.devices, k);
    long came_count = lround(came * data->count), count = lround(expected * data->count);
    EXPECT(came_count == count && fabs(came * data->count - (double)count) < 1e-3,
           "%d images in minibatches of %d, k = %d: %.6g of them are right, one device has %ld "
           "(accuracy %.6f and %.6f)",
           data->count, batch_size, k, came * data->count, count, came, expected);
    size_t image = sizeof(float) * (size_t)(data->rows * data->cols + 1); // and its label
    int batches = data_iter_batches(iter);
    for (int i = 0; i < k; i++) {
        double images = (double)ledger_bytes(host(), many.devices[i]) / (double)image;
        EXPECT(fabs(images - (double)data->count / k) <= batches,
               "k = %d: device %d got %.0f images; %d over %d devices is %.0f each", k, i, images,
               data->count, k, (double)data->count / k);
    }
    Tensor *X, *y, *losses[MAX_DEVICES]; // and training goes on as before
    data_iter_start(iter, 0);
    CHECK(data_iter_next(iter, &X, &y), "there is a minibatch");
    train_batch(X, y, many.params, many.devices, k, 0.1f, losses);
    synchronize_all();
    data_iter_free(iter);
    replicas_close(&one);
    replicas_close(&many);
}

static void check(void) {
    Dataset *data = fashion_mnist_open(flags.data, false, 501);
    for (int k = 1; k <= 4; k++) check_k(data, 100, k); // the last minibatch has one image
    check_k(data, 64, 7);
    dataset_free(data);
    data = fashion_mnist_open(flags.data, false, 5);
    check_k(data, 2, 3); // more devices than images
    dataset_free(data);
    printf(
        "check passed: the accuracy of one device, to the last image, for k = 1, 2, 3, 4, 7\n\n");
}

// ## The experiment

enum { NUM_K = 3, ROUNDS = 7 };
static const int ks[NUM_K] = {1, 2, 4};

typedef struct Measured {
    int k;
    double one[ROUNDS], all[ROUNDS]; // seconds on device 0 of k; on all k
    double accuracy_of_one, accuracy_of_all;
} Measured;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Measured measure(int k, Tensor *const trained[], DataIter *test_iter) {
    Measured m = {.k = k};
    Replicas r;
    replicas_open_from(&r, k, trained);
    for (int round = -1; round < ROUNDS; round++) { // round -1 warms up
        int at = round < 0 ? 0 : round;
        Timer timer = {0};
        timer_start(&timer);
        m.accuracy_of_one = evaluate_accuracy_gpu(lenet, r.params[0], test_iter, r.devices[0]);
        m.one[at] = timer_stop(&timer);
        timer_start(&timer);
        m.accuracy_of_all = evaluate_accuracy_gpus(lenet, r.params, test_iter, r.devices, k);
        m.all[at] = timer_stop(&timer);
    }
    replicas_close(&r);
    qsort(m.one, ROUNDS, sizeof *m.one, by_size);
    qsort(m.all, ROUNDS, sizeof *m.all, by_size);
    CHECK(fabs(m.accuracy_of_one - m.accuracy_of_all) < 1e-6, "both count the same images");
    return m;
}

static void write_csv(const char *path, const Measured m[NUM_K]) {
    OutputFile file = output_open(path);
    fprintf(file.stream, "devices,one,one_median,all,all_median,accuracy\n");
    for (int i = 0; i < NUM_K; i++)
        fprintf(file.stream, "%d,%.5f,%.5f,%.5f,%.5f,%.6f\n", m[i].k, m[i].one[0],
                m[i].one[ROUNDS / 2], m[i].all[0], m[i].all[ROUNDS / 2], m[i].accuracy_of_all);
    output_close(&file);
}

static void answer(const Measured m[NUM_K]) {
    printf(
        "\nAnswer\n"
        "  Accuracy: equal to the last image. Each device counts its own; counts add up without\n"
        "    rounding.\n"
        "  Time:");
    for (int i = 1; i < NUM_K; i++)
        printf(" with %d devices all are %.2f times as fast as one of them%s", m[i].k,
               m[i].one[0] / m[i].all[0], i < NUM_K - 1 ? ",\n   " : ".\n");
    if (num_gpus() == 0)
        printf(
            "    The devices share %d core%s, a k-th part for each (one at least): a device that "
            "is idle\n    leaves its cores idle. So at most %d times can be had, the number of "
            "cores. One device that\n    has them all (k = 1) took %.3f s, %d devices that share "
            "them %.3f s.\n",
            num_threads(), num_threads() > 1 ? "s" : "", num_threads(), m[0].one[0], m[NUM_K - 1].k,
            m[NUM_K - 1].all[0]);
    else if (num_gpus() < ks[NUM_K - 1])
        printf("    Devices that share a GPU share its arithmetic; only GPUs of their own make it "
               "faster.\n");
}

static void experiment(void) {
    Dataset *train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    Dataset *test_data = fashion_mnist_open(flags.data, false, 0);
    DataIter *test_iter = data_iter_new(test_data, 256, false, 0);
    Measured m[NUM_K];
    Replicas one; // trained a little, so that there is something to count
    replicas_open(&one, 1, flags.seed);
    replicas_scale(&one, 10);
    train_one_device(&one, train_data, flags.batch_size, flags.lr, 1, flags.seed);
    printf("Question: how much faster is the test accuracy on all devices?\n"
           "%d test images, minibatches of 256, fastest of %d rounds\n\n"
           "  devices   on device 0   on all devices   accuracy on one   on all\n",
           test_data->count, ROUNDS);
    for (int i = 0; i < NUM_K; i++) {
        m[i] = measure(ks[i], one.params[0], test_iter);
        printf("  %7d   %9.3f s   %12.3f s   %15.4f   %6.4f\n", m[i].k, m[i].one[0], m[i].all[0],
               m[i].accuracy_of_one, m[i].accuracy_of_all);
    }
    replicas_close(&one);
    answer(m);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    write_csv(csv, m);
    draw_plot("exercise_accuracy.gp", csv, png);
    free(csv);
    free(png);
    data_iter_free(test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.train_size = 10000;
    defaults.batch_size = 64;
    defaults.lr = 0.05f;
    flags = parse_flags(argc, argv, "Exercise 4: test accuracy on all devices.",
                        "batch-size lr seed train-size data check", defaults);
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
