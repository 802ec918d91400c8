// experiment.c: test accuracy of 1, 2 and 4 devices with five learning rates and twelve seeds.
//
// With one seed, all learning rates and all k have the same start. Weights start ten times as large
// as the book's: with the book's, some runs would not have left their plateau (accuracy 0.1) before
// they end.
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"

#include <math.h>

enum { NUM_K = 3, NUM_LR = 5, MOST_SEEDS = 32 };
static const int ks[NUM_K] = {1, 2, 4};
static int seeds;
static const Flag own_flags[] = {
    {"seeds", FLAG_INTEGER, &seeds, "N", .help = "train from N seeds each", .least = 1,
     .most = MOST_SEEDS, .counts = "seeds", .standard = "12"},
    {0},
};

// The runs with one k and one learning rate, one for each seed.
typedef struct Cell {
    double accuracy[MOST_SEEDS], mean, spread;
} Cell;

typedef struct Grid {
    float lr[NUM_LR]; // --lr is the one in the middle
    Cell cells[NUM_K][NUM_LR];
} Grid;

static double train(const Flags *flags, Replicas *r, const Dataset *data, float lr, uint64_t seed,
                    DataIter *test_iter) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * flags->batch_size, true, seed);
    for (int epoch = 0; epoch < flags->epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (data_iter_next(iter, &X, &y))
            train_batch(X, y, r->params, r->devices, r->k, lr, losses);
    }
    data_iter_free(iter);
    return evaluate_accuracy_gpu(lenet, r->params[0], test_iter, r->devices[0]);
}

static double standard_deviation(const double values[], int n) {
    double squares = 0, m = mean(values, n);
    for (int i = 0; i < n; i++) squares += (values[i] - m) * (values[i] - m);
    return sqrt(squares / (n - 1));
}

static Cell measure(const Flags *flags, int k, float lr, const Dataset *data, DataIter *test_iter) {
    Cell cell;
    for (int s = 0; s < seeds; s++) {
        Replicas r;
        uint64_t seed = flags->seed + (uint64_t)s;
        replicas_open(&r, k, seed);
        replicas_scale(&r, 10);
        cell.accuracy[s] = train(flags, &r, data, lr, seed, test_iter);
        replicas_close(&r);
    }
    cell.mean = mean(cell.accuracy, seeds);
    cell.spread = standard_deviation(cell.accuracy, seeds);
    return cell;
}
static void measure_all(const Flags *flags, const Dataset *data, DataIter *test_iter, Grid *grid) {
    Table t = TABLE(NULL, DIGITS("lr", 2), {"k = %d", .width = 13, .count = NUM_K, .of = ks});
    for (int j = 0; j < NUM_LR; j++) {
        grid->lr[j] = flags->lr * (float)(1 << j) / 4;
        table_numbers(&t, grid->lr[j]);
        for (int i = 0; i < NUM_K; i++) {
            grid->cells[i][j] = measure(flags, ks[i], grid->lr[j], data, test_iter);
            table_text(&t, "%.3f ± %.3f", grid->cells[i][j].mean, grid->cells[i][j].spread);
            fflush(stdout);
        }
    }
}

static void write_csv(FILE *csv, const Flags *flags, const Grid *grid) {
    static const int numbers[MOST_SEEDS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    Table t = TABLE(csv, {.csv = "devices"}, {.csv = "batch"}, {.csv = "lr"}, {.csv = "mean"},
                    {.csv = "spread"}, {.csv = "run%d", .count = seeds, .of = numbers});
    for (int i = 0; i < NUM_K; i++)
        for (int j = 0; j < NUM_LR; j++) {
            const Cell *c = &grid->cells[i][j];
            table_numbers(&t, ks[i], ks[i] * flags->batch_size, grid->lr[j], c->mean, c->spread);
            table_add_numbers(&t, (size_t)seeds, c->accuracy);
        }
}

static float best_rate(const Grid *grid, int i) {
    int best = 0;
    for (int j = 1; j < NUM_LR; j++)
        if (grid->cells[i][j].mean > grid->cells[i][best].mean) best = j;
    return grid->lr[best];
}

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *data = fashion_mnist_open(flags->data, true, flags->train_size);
    Dataset *test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    Grid grid;
    say("b = %d, %d training images, %d epoch%s, accuracy on %d test images, mean ± standard "
        "deviation of %d seeds\n",
        flags->batch_size, data->count, flags->epochs, flags->epochs > 1 ? "s" : "",
        test_data->count, seeds);
    Prediction times =
        predict_first("Of five learning rates, one gives the best mean accuracy on one "
                      "device. How many times as large is the best one on four devices?");
    measure_all(flags, data, test_iter, &grid);
    write_csv(csv, flags, &grid);
    predict_compare(times, (double)(best_rate(&grid, NUM_K - 1) / best_rate(&grid, 0)), "times");
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

static void prepare(const Flags *flags) {
    choose_allreduce(flags->allreduce);
    if (seeds < 2) die_usage("--seeds 2 or more", "one seed says nothing about chance");
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: accuracy against learning rate, on 1, 2 and 4 devices.\n"
                             "--batch-size is b, the images of each device: k devices have "
                             "minibatches of k*b.",
                    .flags = "batch-size=2 lr=0.1 epochs=1 seed train-size=1280 test-size=2000 "
                             "allreduce -machine",
                    .prepare = prepare,
                    .experiment = experiment,
                    .plot = "exercise_learning_rates.gp",
                    .program = {.own = own_flags,
                                .quick_means = "--seeds 4 --train-size 640 --test-size 1000"}});
}
