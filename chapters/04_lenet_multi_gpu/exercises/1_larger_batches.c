// # Exercise 1: k devices, minibatches of k*b images
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 1: "When training on k GPUs, change
// the minibatch size from b to k*b, i.e., scale it up by the number of GPUs."
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-1                                    the question, the answer, the evidence
//   make exercise-04-1 ARGS=--check                       only check the solution: seconds
//   make exercise-04-1 ARGS='--batch-size 256 --train-size 60000 --epochs 10'    the book's sizes
//
// --batch-size is b, the images that each device gets. The book has b = 256 and 60000 images; the
// defaults are smaller, so that a laptop answers in two minutes.
#include "common/device/timer.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Your part
//
// One pass over the data, number `epoch`, on k devices: minibatches of k * b images, so that each
// device has b of them in each step, as many as if it were alone. data_iter_new(data, batch_size,
// true, seed) makes the minibatches; data_iter_start() begins an epoch, data_iter_next() gets a
// minibatch, data_iter_free() ends it all: see common/data/fashion_mnist.h. train_batch() of chapter 4
// trains on one minibatch. Returns how many updates were made.
static int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr,
                       uint64_t seed) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    int updates = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_batch(X, y, r->params, r->devices, r->k, lr, losses);
        updates++;
    }
    data_iter_free(iter);
    return updates;
    // END SOLUTION
}

// ## The check
//
// On k devices with b images each, an epoch must make the updates that one device makes with
// minibatches of k * b: as many, and the same ones, in an order of their own for each epoch.

enum { CHECKED_EPOCHS = 2 };

static void check_epoch(Replicas *many, const Dataset *data, int epoch, int b, float lr) {
    int k = many->k, batches = (data->count + k * b - 1) / (k * b);
    ledger_reset();
    int updates = train_epoch(many, data, epoch, b, lr, 7);
    synchronize_all();
    EXPECT(updates == batches, "%d images, k = %d, b = %d: %d updates, expected %d", data->count, k,
           b, updates, batches);
    size_t image = sizeof(float) * (size_t)(data->rows * data->cols + 1); // and its label
    for (int i = 0; i < k; i++) {
        double images = (double)ledger_bytes(host(), many->devices[i]) / (double)image;
        EXPECT(fabs(images - (double)data->count / k) <= batches,
               "k = %d: device %d got %g images in an epoch, not %g", k, i, images,
               (double)data->count / k);
    }
}

static void check_k(const Dataset *data, int k, int b) {
    Replicas one, many;
    const float lr = 0.5f;
    replicas_open(&one, 1, 1);
    float *start = replica_values(&one, 0);
    train_one_device(&one, data, k * b, lr, CHECKED_EPOCHS, 7);
    replicas_open(&many, k, 1);
    for (int epoch = 0; epoch < CHECKED_EPOCHS; epoch++) check_epoch(&many, data, epoch, b, lr);
    for (int i = 0; i < k; i++) {
        float *expected = replica_values(&one, 0), *came = replica_values(&many, i);
        double difference = relative_difference(came, expected, start, replica_numel());
        // Not less: rounding may put a pixel that is nearly zero on the other side of ReLU.
        EXPECT(difference <= 1e-2,
               "k = %d, b = %d: after %d epochs the parameters of device %d are not those of one "
               "device with minibatches of %d (they differ by %g of the change)",
               k, b, CHECKED_EPOCHS, i, k * b, difference);
        free(expected);
        free(came);
    }
    free(start);
    replicas_close(&one);
    replicas_close(&many);
}

static void check(void) {
    Dataset *data = fashion_mnist_open(flags.data, false, 300);
    check_k(data, 1, 32);
    check_k(data, 2, 32);
    check_k(data, 4, 32);
    check_k(data, 3, 7);
    dataset_free(data);
    printf("check passed: k devices with minibatches of k*b make the updates of one device with "
           "k*b\n\n");
}

// ## The experiment

typedef struct Run {
    int k, updates; // per epoch
    float lr;
    double seconds, accuracy; // per epoch; after the last
} Run;

static Run train(int k, float lr, const Dataset *train_data, DataIter *test_iter, FILE *csv) {
    Replicas r;
    Run run = {.k = k, .lr = lr};
    Timer timer = {0};
    replicas_open(&r, k, flags.seed);
    for (int epoch = 0; epoch < flags.epochs; epoch++) {
        timer_start(&timer);
        run.updates = train_epoch(&r, train_data, epoch, flags.batch_size, lr, flags.seed);
        timer_stop(&timer);
        run.accuracy = evaluate_accuracy_gpu(lenet, r.params[0], test_iter, r.devices[0]);
        fprintf(csv, "%d,%g,%d,%d,%.4f\n", k, (double)lr, epoch + 1, (epoch + 1) * run.updates,
                run.accuracy);
    }
    run.seconds = timer_avg(&timer);
    replicas_close(&r);
    printf("  %7d %6d %6g %13d %8d %10.2f %9.3f\n", k, k * flags.batch_size, (double)lr,
           run.updates, flags.epochs * run.updates, run.seconds, run.accuracy);
    return run;
}

// The runs: 1 device, then 2 and 4 with its lr, twice that, ..., k times that.
enum { NUM_RUNS = 6 };
static const double LEARNED = 0.2; // accuracy 0.1 is guessing

static void explain_accuracy(const Run *one, const Run *four) {
    printf("  Accuracy: with the same lr, 4 devices reach %.3f instead of %.3f after %d epoch%s.",
           four->accuracy, one->accuracy, flags.epochs, flags.epochs > 1 ? "s" : "");
    if (one->accuracy < LEARNED)
        printf("\n    But one device has learned nothing yet (0.1 is guessing), so that says "
               "nothing: take more\n    --epochs or a larger --train-size.\n");
    else if (four->accuracy < one->accuracy - 0.01)
        printf(" A mean\n    over more images is a better estimate of the gradient, but hardly a "
               "longer step: compare\n    curves of one lr in the right half of the plot, at the "
               "same number of updates.\n");
    else
        printf("\n    So that many updates were not needed here.\n");
}

static void explain_lr(const Run runs[NUM_RUNS]) {
    const Run *best = &runs[3], *last = &runs[NUM_RUNS - 1];
    for (int i = 3; i < NUM_RUNS; i++)
        if (runs[i].accuracy > best->accuracy) best = &runs[i];
    if (best->accuracy < LEARNED) {
        printf("  Learning rate: on 4 devices no run has learned anything yet.\n");
        return;
    }
    printf("  Learning rate: the best of those tried on 4 devices is %g, with %.3f. To scale it by "
           "k is\n    a rule of thumb (Goyal et al., 2017)",
           (double)best->lr, best->accuracy);
    if (best == last)
        printf(", which fits these runs: %g is %d times %g.", (double)last->lr, last->k,
               (double)runs[0].lr);
    else
        printf(", which would have said %g; that run reached %.3f.", (double)last->lr,
               last->accuracy);
    printf("\n    One run for each says little: exercise 2 takes several seeds.\n");
}

static void answer(const Run runs[NUM_RUNS]) {
    const Run *one = &runs[0], *four = &runs[3];
    printf("\nAnswer\n"
           "  Updates: an epoch on 4 devices has %d instead of %d, each from %d images instead of "
           "%d.\n",
           four->updates, one->updates, 4 * flags.batch_size, flags.batch_size);
    explain_accuracy(one, four);
    explain_lr(runs);
    printf("  Time: an epoch on 4 devices took %.2f times as long as on 1. ",
           four->seconds / one->seconds);
    if (num_gpus() >= 4)
        printf("Each GPU has a quarter of the images.\n");
    else
        printf("These devices share %s.\n    With one GPU for each, b images per device keep all "
               "of them as busy as one alone.\n",
               num_gpus() ? "GPUs" : "cores");
}

static void experiment(void) {
    Dataset *train_data = fashion_mnist_open(flags.data, true, flags.train_size);
    Dataset *test_data = fashion_mnist_open(flags.data, false, 2500);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    OutputFile file = output_open(csv);
    Run runs[NUM_RUNS];
    int n = 0;
    printf("Question: what happens with minibatches of k*b images on k devices?\n"
           "b = %d, %d training images, %d epoch%s, accuracy on %d test images\n\n"
           "  devices  batch     lr updates/epoch  updates  sec/epoch  test acc\n",
           flags.batch_size, train_data->count, flags.epochs, flags.epochs > 1 ? "s" : "",
           test_data->count);
    fprintf(file.stream, "devices,lr,epoch,updates,test_acc\n");
    for (int k = 1; k <= 4; k *= 2)
        for (int times = 1; times <= k; times *= 2)
            runs[n++] = train(k, (float)times * flags.lr, train_data, test_iter, file.stream);
    output_close(&file);
    answer(runs);
    draw_plot("exercise_larger_batches.gp", csv, png);
    free(csv);
    free(png);
    data_iter_free(test_iter);
    dataset_free(train_data);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 32;
    defaults.lr = 0.1f;
    defaults.train_size = 10240;
    defaults.epochs = 8;
    flags = parse_flags(
        argc, argv,
        "Exercise 1: minibatches of k*b images on k devices.\n"
        "--batch-size is b, the images of each device: k devices have minibatches of k*b.",
        "batch-size lr epochs seed train-size allreduce data check", defaults);
    choose_allreduce(flags.allreduce);
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
