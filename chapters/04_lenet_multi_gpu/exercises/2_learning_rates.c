// # Exercise 2: the learning rate, and how it scales with k
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 2: "Compare accuracy for different
// learning rates. How does it scale with the number of GPUs?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-2                          the question, the answer, the evidence
//   make exercise-04-2 ARGS=--check             only check the solution: seconds
//   make exercise-04-2 ARGS='--epochs 10 --train-size 20000'    less noise, more time
//
// --batch-size is b, the images that each device gets; k devices train with minibatches of k*b.
// Each run is made with several seeds, because one run says little: another start or another order
// of the images may make it better or worse by more than the learning rate does.
#include "../../../common/error.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Your part
//
// Trains the replicas for some epochs, with minibatches of k * b images in an order made from the
// seed, and returns the accuracy of device 0's replica on test_iter.
static double accuracy_after(Replicas *r, const Dataset *data, int epochs, int b, float lr,
                             uint64_t seed, DataIter *test_iter) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    for (int epoch = 0; epoch < epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (data_iter_next(iter, &X, &y)) {
            train_batch(X, y, r->params, r->devices, r->k, lr, losses);
            synchronize_all();
        }
    }
    data_iter_free(iter);
    return evaluate_accuracy_gpu(lenet, r->params[0], test_iter, r->devices[0]);
    // END SOLUTION
}

// The mean of n values, and their standard deviation (with n - 1; 0 for a single value).
static void mean_and_spread(const double values[], int n, double *mean, double *spread) {
    // SOLUTION (starter: *mean = *spread = 0;)
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *spread = n > 1 ? sqrt(squares / (n - 1)) : 0;
    // END SOLUTION
}

// ## The check

static void check_accuracy(const Dataset *data, DataIter *test_iter, int k, int b, float lr) {
    Replicas one, many;
    replicas_open(&one, 1, 1);
    replicas_open(&many, k, 1);
    replicas_scale(&one, 10);
    replicas_scale(&many, 10);
    float *start = replica_values(&one, 0);
    train_one_device(&one, data, k * b, lr, 2, 7);
    double expected = evaluate_accuracy_gpu(lenet, one.params[0], test_iter, one.devices[0]);
    double came = accuracy_after(&many, data, 2, b, lr, 7, test_iter);
    float *end = replica_values(&one, 0), *many_end = replica_values(&many, k - 1);
    EXPECT(fabs(came - expected) <= 0.01,
           "k = %d, b = %d, lr %g, 2 epochs: accuracy %.3f, one device with minibatches of %d has "
           "%.3f",
           k, b, (double)lr, came, k * b, expected);
    double difference = relative_difference(many_end, end, start);
    EXPECT(difference <= 1e-2,
           "k = %d: the parameters differ from those of one device by %g of the change", k,
           difference);
    free(start);
    free(end);
    free(many_end);
    replicas_close(&one);
    replicas_close(&many);
}

static void check_mean(const double values[], int n, double expected_mean, double expected_spread) {
    double mean = NAN, spread = NAN;
    mean_and_spread(values, n, &mean, &spread);
    EXPECT(fabs(mean - expected_mean) <= 1e-12, "the mean of %d values is %g, not %g", n,
           expected_mean, mean);
    EXPECT(fabs(spread - expected_spread) <= 1e-12,
           "the standard deviation of %d values is %g, not %g", n, expected_spread, spread);
}

static void check(void) {
    Dataset *data = fashion_mnist_open(flags.data, false, 512);
    DataIter *test_iter = data_iter_new(data, 128, false, 0);
    check_mean((double[]){0.7, 0.8, 0.9}, 3, 0.8, 0.1);
    check_mean((double[]){0.5}, 1, 0.5, 0);
    check_accuracy(data, test_iter, 1, 16, 0.05f);
    check_accuracy(data, test_iter, 2, 16, 0.05f);
    check_accuracy(data, test_iter, 4, 8, 0.05f);
    check_accuracy(data, test_iter, 2, 16, 0);
    data_iter_free(test_iter);
    dataset_free(data);
    printf("check passed: accuracy after training on k devices; mean and standard deviation\n\n");
}

// ## The experiment

enum { NUM_K = 3, NUM_LR = 5, NUM_SEEDS = 3 };
static const int ks[NUM_K] = {1, 2, 4};

typedef struct Cell {
    double accuracy[NUM_SEEDS], mean, spread;
} Cell;

// --lr is the one in the middle.
static float lr_of(int j) { return flags.lr * (float)(1 << j) / 4; }

static Cell measure(int k, float lr, const Dataset *data, DataIter *test_iter) {
    Cell cell;
    for (int s = 0; s < NUM_SEEDS; s++) {
        Replicas r;
        uint64_t seed = flags.seed + (uint64_t)s;
        replicas_open(&r, k, seed);
        cell.accuracy[s] =
            accuracy_after(&r, data, flags.epochs, flags.batch_size, lr, seed, test_iter);
        replicas_close(&r);
    }
    mean_and_spread(cell.accuracy, NUM_SEEDS, &cell.mean, &cell.spread);
    return cell;
}

static void write_csv(const char *path, Cell cells[NUM_K][NUM_LR]) {
    OutputFile file = output_open(path);
    fprintf(file.stream, "devices,batch,lr,mean,spread");
    for (int s = 0; s < NUM_SEEDS; s++) fprintf(file.stream, ",run%d", s + 1);
    for (int i = 0; i < NUM_K; i++)
        for (int j = 0; j < NUM_LR; j++) {
            const Cell *c = &cells[i][j];
            fprintf(file.stream, "\n%d,%d,%g,%.4f,%.4f", ks[i], ks[i] * flags.batch_size,
                    (double)lr_of(j), c->mean, c->spread);
            for (int s = 0; s < NUM_SEEDS; s++) fprintf(file.stream, ",%.4f", c->accuracy[s]);
        }
    fprintf(file.stream, "\n");
    output_close(&file);
}

static int best_of(const Cell cells[NUM_LR]) {
    int best = 0;
    for (int j = 1; j < NUM_LR; j++)
        if (cells[j].mean > cells[best].mean) best = j;
    return best;
}

static void answer(Cell cells[NUM_K][NUM_LR]) {
    printf("\nAnswer\n");
    for (int i = 0; i < NUM_K; i++) {
        int best = best_of(cells[i]);
        printf("  %d device%s with minibatches of %d: best lr %g, accuracy %.3f ± %.3f\n", ks[i],
               ks[i] > 1 ? "s" : "", ks[i] * flags.batch_size, (double)lr_of(best),
               cells[i][best].mean, cells[i][best].spread);
    }
    double ratio = (double)(lr_of(best_of(cells[NUM_K - 1])) / lr_of(best_of(cells[0])));
    printf(
        "  From 1 to 4 devices the best of these learning rates changed by a factor of %g. It is "
        "not\n"
        "  the devices that ask for a larger one, but the k times larger minibatches: fewer "
        "updates,\n"
        "  each with less noise, so each may go further. But a step that is too long breaks the\n"
        "  training (accuracy 0.1 is guessing), on any number of devices. So there is a best lr, "
        "it\n"
        "  grows with k, and more slowly than k once it comes near that limit.\n",
        ratio);
}

static void experiment(void) {
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    Dataset *test_data = fashion_mnist_open(flags.data, false, 2000);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    Cell cells[NUM_K][NUM_LR];
    printf("Question: which learning rate is best, and how does it scale with the number of "
           "devices k?\n"
           "b = %d, %d training images, %d epochs, accuracy on %d test images, mean ± standard "
           "deviation\n"
           "of %d seeds\n\n       lr",
           flags.batch_size, data->count, flags.epochs, test_data->count, NUM_SEEDS);
    for (int i = 0; i < NUM_K; i++) printf("   k=%d, batch %-3d", ks[i], ks[i] * flags.batch_size);
    printf("\n");
    for (int j = 0; j < NUM_LR; j++) {
        printf("  %7g", (double)lr_of(j));
        for (int i = 0; i < NUM_K; i++) {
            cells[i][j] = measure(ks[i], lr_of(j), data, test_iter);
            printf("    %.3f ± %.3f", cells[i][j].mean, cells[i][j].spread);
            fflush(stdout);
        }
        printf("\n");
    }
    answer(cells);
    make_directory(flags.out);
    char *csv = out_file(flags.out, ".csv"), *png = out_file(flags.out, ".png");
    write_csv(csv, cells);
    draw_plot("exercise_learning_rates.gp", csv, png);
    free(csv);
    free(png);
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 8;
    defaults.train_size = 2560;
    defaults.epochs = 5;
    flags = parse_flags(argc, argv,
                        "Exercise 2: accuracy against learning rate, on 1, 2 and 4 devices.",
                        "batch-size lr epochs seed train-size data check", defaults);
    check();
    if (!flags.check) experiment();
    autograd_close();
    devices_close();
    return EXIT_SUCCESS;
}
