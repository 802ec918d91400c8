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
//   make exercise-04-2 ARGS='--epochs 2 --batch-size 8'    longer training, larger minibatches
//
// --batch-size is b, the images that each device gets; k devices train with minibatches of k*b.
// Each run is made with several seeds, because one run says little: another start or another order
// of the images may make it better or worse by more than the learning rate does. With one seed, all
// learning rates and all k have the same start. Weights start ten times as large as the book's:
// with the book's, some runs would not have left their plateau (accuracy 0.1) before they end.
#include "common/base/error.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Flags flags;

// ## Your part
//
// Trains the replicas for some epochs, with minibatches of k * b images in an order made from the
// seed, and returns the accuracy that device 0's replica then has on test_iter. The epochs are
// those of exercise 1; they may be written in the same way.
static double accuracy_after(Replicas *r, const Dataset *data, int epochs, int b, float lr,
                             uint64_t seed, DataIter *test_iter) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    for (int epoch = 0; epoch < epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (data_iter_next(iter, &X, &y))
            train_batch(X, y, r->params, r->devices, r->k, lr, losses);
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

static void check_against(Replicas *one, const Dataset *data, DataIter *test_iter, int k, int b,
                          float lr) {
    Replicas many;
    replicas_open_from(&many, k, one->params[0]);
    float *start = replica_values(one, 0);
    train_one_device(one, data, k * b, lr, 2, 7);
    double expected = evaluate_accuracy_gpu(lenet, one->params[0], test_iter, one->devices[0]);
    double came = accuracy_after(&many, data, 2, b, lr, 7, test_iter);
    float *end = replica_values(one, 0), *many_end = replica_values(&many, k - 1);
    EXPECT(fabs(came - expected) <= 0.02,
           "k = %d, b = %d, lr %g, %d images, after 2 epochs: accuracy %.3f, one device with "
           "minibatches of %d has %.3f",
           k, b, (double)lr, data->count, came, k * b, expected);
    double difference = relative_difference(many_end, end, start, replica_numel());
    // Rounding may put a pixel that is nearly zero on the other side of ReLU, and training carries
    // that on: right solutions came to 0.01, those with other minibatches were 0.13 or more away.
    EXPECT(difference <= 5e-2,
           "k = %d, b = %d, %d images, 2 epochs: the parameters differ from those of one device by "
           "%g of the change",
           k, b, data->count, difference);
    free(start);
    free(end);
    free(many_end);
    replicas_close(&many);
}

// With a number of images that leaves a short minibatch at the end.
static void check_accuracy(const Dataset *data, DataIter *test_iter, int k, int b, float lr) {
    Replicas one;
    replicas_open(&one, 1, 1);
    replicas_scale(&one, 10);
    check_against(&one, data, test_iter, k, b, lr);
    replicas_close(&one);
}

// After right labels wrong ones, each too high by one: accuracy falls from epoch to epoch, and what
// is asked for is that after the last.
static void check_falling(Dataset *data, DataIter *test_iter) {
    Replicas one;
    replicas_open(&one, 1, 1);
    replicas_scale(&one, 10);
    train_one_device(&one, data, 16, 0.05f, 2, 3);
    for (int i = 0; i < data->count; i++)
        data->labels[i] = (uint8_t)((data->labels[i] + 1) % FASHION_MNIST_CLASSES);
    check_against(&one, data, test_iter, 2, 16, 0.02f);
    replicas_close(&one);
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
    Dataset *data = fashion_mnist_open(flags.data, true, 300);
    Dataset *test_data = fashion_mnist_open(flags.data, false, 500);
    DataIter *test_iter = data_iter_new(test_data, 128, false, 0);
    check_mean((double[]){0.7, 0.8, 0.9}, 3, 0.8, 0.1);
    check_mean((double[]){0.5}, 1, 0.5, 0);
    check_accuracy(data, test_iter, 1, 16, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0.02f);
    check_accuracy(data, test_iter, 4, 8, 0.02f);
    check_accuracy(data, test_iter, 2, 16, 0);
    check_falling(data, test_iter); // changes the labels
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
    printf("check passed: accuracy after training on k devices; mean and standard deviation\n\n");
}

// ## The experiment

enum { NUM_K = 3, NUM_LR = 5, NUM_SEEDS = 12 };
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
        replicas_scale(&r, 10);
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

// ## What the figures say, and what they do not

static const double GUESSING = 0.1;

static int best_of(const Cell cells[NUM_LR]) {
    int best = 0;
    for (int j = 1; j < NUM_LR; j++)
        if (cells[j].mean > cells[best].mean) best = j;
    return best;
}

static int best_of_seed(const Cell cells[NUM_LR], int s) {
    int best = 0;
    for (int j = 1; j < NUM_LR; j++)
        if (cells[j].accuracy[s] > cells[best].accuracy[s]) best = j;
    return best;
}

// Prints the best learning rate of each k. Returns whether all of them learned something.
static bool print_best(Cell cells[NUM_K][NUM_LR]) {
    bool learned = true;
    for (int i = 0; i < NUM_K; i++) {
        int best = best_of(cells[i]);
        const Cell *c = &cells[i][best];
        printf(
            "  %d device%s with minibatches of %d: best lr %g, accuracy %.3f ± %.3f%s\n", ks[i],
            ks[i] > 1 ? "s" : "", ks[i] * flags.batch_size, (double)lr_of(best), c->mean, c->spread,
            best == 0 || best == NUM_LR - 1 ? " (the last one tried: another may be better)" : "");
        learned = learned && c->mean > 2 * GUESSING;
    }
    return learned;
}

// One seed is one comparison: the same start and the same images, k = 1 and k = 4. By how many
// doublings do their best learning rates differ? The mean of n such numbers is itself uncertain by
// about their spread / sqrt(n). What is less than 2.2 times that (Student's t for 12 numbers, 95%)
// may be chance, and so may be what the means of the accuracies do not say too.
static void print_scaling(Cell cells[NUM_K][NUM_LR]) {
    double doublings[NUM_SEEDS], mean, spread;
    const Cell *first = cells[0], *last = cells[NUM_K - 1];
    int k = ks[NUM_K - 1];
    printf("  Seed by seed, the best lr of k = %d is that of k = 1 times\n   ", k);
    for (int s = 0; s < NUM_SEEDS; s++) {
        doublings[s] = best_of_seed(last, s) - best_of_seed(first, s);
        printf("%s %g", s ? "," : "", exp2(doublings[s]));
    }
    mean_and_spread(doublings, NUM_SEEDS, &mean, &spread);
    double chance = 2.2 * spread / sqrt(NUM_SEEDS);
    printf(":\n    %.2f in the middle; with so few seeds that may be anything from %.2f to %.2f.\n",
           exp2(mean), exp2(mean - chance), exp2(mean + chance));
    if (fabs(mean) <= chance || mean * (best_of(last) - best_of(first)) <= 0)
        printf("    Whether the best lr changes with k cannot be told from these runs.\n");
    else if (mean < 0)
        printf("    So here the best lr falls with k.\n");
    else if (mean + chance < log2(k))
        printf("    So here the best lr grows with k, and more slowly than k.\n");
    else if (mean - chance > log2(k))
        printf("    So here the best lr grows with k, and faster than k.\n");
    else
        printf("    So here the best lr grows with k; whether as fast as k cannot be told from "
               "these runs.\n");
}

// The largest learning rate, going up from the smallest, with which all runs learn something; -1:
// there is none.
static int largest_that_learns(const Cell cells[NUM_LR]) {
    for (int j = 0; j < NUM_LR; j++)
        for (int s = 0; s < NUM_SEEDS; s++)
            if (cells[j].accuracy[s] < 1.5 * GUESSING) return j - 1;
    return NUM_LR - 1;
}

// Too long a step breaks the training. How long is that?
static void print_limits(Cell cells[NUM_K][NUM_LR]) {
    const Cell *first = cells[0], *last = cells[NUM_K - 1];
    int at = 0;
    printf("  The largest lr tried with which all %d runs learn something:", NUM_SEEDS);
    for (int i = 0; i < NUM_K; i++) {
        int limit = largest_that_learns(cells[i]);
        char *lr = limit < 0 ? xstrdup("none") : xprintf("%g", (double)lr_of(limit));
        printf("%s %s with k = %d", i ? "," : "", lr, ks[i]);
        free(lr);
    }
    printf(".\n");
    for (int j = 1; j < NUM_LR; j++)
        if (last[j].mean - first[j].mean > last[at].mean - first[at].mean) at = j;
    if (last[at].mean - first[at].mean > 2 * hypot(first[at].spread, last[at].spread))
        printf("    With lr %g, k = 1 has %.3f ± %.3f and k = %d has %.3f ± %.3f: the larger "
               "minibatches\n    bear a larger lr.\n",
               (double)lr_of(at), first[at].mean, first[at].spread, ks[NUM_K - 1], last[at].mean,
               last[at].spread);
}

static void answer(Cell cells[NUM_K][NUM_LR]) {
    printf("\nAnswer\n");
    if (!print_best(cells)) {
        printf("  Not all of them have learned something (accuracy %g is guessing), so there is "
               "nothing to\n  compare. Take more --epochs or a larger --train-size.\n",
               GUESSING);
        return;
    }
    print_scaling(cells);
    print_limits(cells);
    printf(
        "  Why a larger lr may be better: not the devices ask for it but the k times larger "
        "minibatches,\n    that is, fewer updates, each with less noise, so each may go further. "
        "One device with\n    minibatches of k*b would ask for the same.\n");
}

static void experiment(void) {
    Dataset *data = fashion_mnist_open(flags.data, true, flags.train_size);
    Dataset *test_data = fashion_mnist_open(flags.data, false, 2000);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    Cell cells[NUM_K][NUM_LR];
    printf("Question: which learning rate is best, and how does it scale with the number of "
           "devices k?\n"
           "b = %d, %d training images, %d epoch%s, accuracy on %d test images, mean ± standard "
           "deviation\n"
           "of %d seeds\n\n       lr",
           flags.batch_size, data->count, flags.epochs, flags.epochs > 1 ? "s" : "",
           test_data->count, NUM_SEEDS);
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
    defaults.batch_size = 2;
    defaults.lr = 0.1f;
    defaults.train_size = 1280;
    defaults.epochs = 1;
    flags = parse_flags(
        argc, argv,
        "Exercise 2: accuracy against learning rate, on 1, 2 and 4 devices.\n"
        "--batch-size is b, the images of each device: k devices have minibatches of k*b.",
        "batch-size lr epochs seed train-size allreduce data check", defaults);
    choose_allreduce(flags.allreduce);
    check();
    if (!flags.check) experiment();
    devices_close();
    return EXIT_SUCCESS;
}
