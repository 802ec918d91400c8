// experiment.c: test accuracy of 1, 2 and 4 devices with five learning rates and twelve seeds.
// Which learning rate is best, and does that change with k?
//
// With one seed, all learning rates and all k have the same start. Weights start ten times as large
// as the book's: with the book's, some runs would not have left their plateau (accuracy 0.1) before
// they end.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

enum { NUM_K = 3, NUM_LR = 5 };
static const int ks[NUM_K] = {1, 2, 4};

// The runs with one k and one learning rate, one for each seed.
typedef struct Cell {
    double accuracy[MOST_SEEDS], mean, spread;
} Cell;

typedef struct Grid {
    int seeds;
    float lr[NUM_LR]; // --lr is the one in the middle
    Cell cells[NUM_K][NUM_LR];
} Grid;

static Cell measure(const Flags *flags, int k, float lr, const Dataset *data, DataIter *test_iter) {
    Cell cell;
    for (int s = 0; s < flags->seeds; s++) {
        Replicas r;
        uint64_t seed = flags->seed + (uint64_t)s;
        replicas_open(&r, k, seed);
        replicas_scale(&r, 10);
        cell.accuracy[s] =
            accuracy_after(&r, data, flags->epochs, flags->batch_size, lr, seed, test_iter);
        replicas_close(&r);
    }
    mean_and_spread(cell.accuracy, flags->seeds, &cell.mean, &cell.spread);
    return cell;
}

static void measure_all(const Flags *flags, const Dataset *data, DataIter *test_iter, Grid *grid) {
    printf("       lr");
    for (int i = 0; i < NUM_K; i++) printf("   k=%d, batch %-3d", ks[i], ks[i] * flags->batch_size);
    printf("\n");
    for (int j = 0; j < NUM_LR; j++) {
        grid->lr[j] = flags->lr * (float)(1 << j) / 4;
        printf("  %7g", (double)grid->lr[j]);
        for (int i = 0; i < NUM_K; i++) {
            grid->cells[i][j] = measure(flags, ks[i], grid->lr[j], data, test_iter);
            printf("    %.3f ± %.3f", grid->cells[i][j].mean, grid->cells[i][j].spread);
            fflush(stdout);
        }
        printf("\n");
    }
}

static void write_csv(FILE *csv, const Flags *flags, const Grid *grid) {
    fprintf(csv, "devices,batch,lr,mean,spread");
    for (int s = 0; s < grid->seeds; s++) fprintf(csv, ",run%d", s + 1);
    for (int i = 0; i < NUM_K; i++)
        for (int j = 0; j < NUM_LR; j++) {
            const Cell *c = &grid->cells[i][j];
            fprintf(csv, "\n%d,%d,%g,%.4f,%.4f", ks[i], ks[i] * flags->batch_size,
                    (double)grid->lr[j], c->mean, c->spread);
            for (int s = 0; s < grid->seeds; s++) fprintf(csv, ",%.4f", c->accuracy[s]);
        }
    fprintf(csv, "\n");
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

// Says the best learning rate of each k. Returns whether all of them learned something.
static bool explain_best(const Flags *flags, const Grid *grid) {
    bool learned = true;
    for (int i = 0; i < NUM_K; i++) {
        int best = best_of(grid->cells[i]);
        const Cell *c = &grid->cells[i][best];
        bool at_the_end = best == 0 || best == NUM_LR - 1;
        say("- %d device%s with minibatches of %d: best lr %g, accuracy %.3f ± %.3f%s", ks[i],
            ks[i] > 1 ? "s" : "", ks[i] * flags->batch_size, (double)grid->lr[best], c->mean,
            c->spread, at_the_end ? " (the last one tried: another may be better)" : "");
        learned = learned && c->mean > 2 * GUESSING;
    }
    return learned;
}

// What can be said of the best lr of k = 4 and of k = 1, which are `mean` doublings apart, give or
// take `chance`; `of_means` doublings apart are those with the best mean accuracy.
static const char *scaling(double mean, double chance, int of_means) {
    double doublings_of_k = log2(ks[NUM_K - 1]);
    if (fabs(mean) <= chance || mean * of_means <= 0)
        return "Whether the best lr changes with k cannot be told from these runs.";
    if (mean < 0) return "So here the best lr falls with k.";
    if (mean + chance < doublings_of_k)
        return "So here the best lr grows with k, and more slowly than k.";
    if (mean - chance > doublings_of_k)
        return "So here the best lr grows with k, and faster than k.";
    return "So here the best lr grows with k; whether as fast as k cannot be told from these runs.";
}

// One seed is one comparison: the same start and the same images, k = 1 and k = 4. By how many
// doublings do their best learning rates differ? The mean of n such numbers is itself uncertain by
// about their spread / sqrt(n). What is less than 2.2 times that (Student's t for 12 numbers, 95%;
// for fewer it is more) may be chance, and so may be what the means of the accuracies do not say
// too.
static double students_t(int n) {
    static const double t[] = {12.7, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
    return n < 12 ? t[n - 2] : 2.2;
}

static void explain_scaling(const Grid *grid) {
    double doublings[MOST_SEEDS], mean, spread;
    const Cell *first = grid->cells[0], *last = grid->cells[NUM_K - 1];
    say("- Seed by seed, the best lr of k = %d is so many times that of k = 1:", ks[NUM_K - 1]);
    printf(" ");
    for (int s = 0; s < grid->seeds; s++) {
        doublings[s] = best_of_seed(last, s) - best_of_seed(first, s);
        printf(" %g", exp2(doublings[s]));
    }
    printf("\n");
    mean_and_spread(doublings, grid->seeds, &mean, &spread);
    double chance = students_t(grid->seeds) * spread / sqrt(grid->seeds);
    say("  In the middle that is %.2f; with so few seeds it may be anything from %.2f to %.2f. %s",
        exp2(mean), exp2(mean - chance), exp2(mean + chance),
        scaling(mean, chance, best_of(last) - best_of(first)));
}

// The largest learning rate, going up from the smallest, with which all runs learn something; -1:
// there is none.
static int largest_that_learns(const Cell cells[NUM_LR], int seeds) {
    for (int j = 0; j < NUM_LR; j++)
        for (int s = 0; s < seeds; s++)
            if (cells[j].accuracy[s] < 1.5 * GUESSING) return j - 1;
    return NUM_LR - 1;
}

// Too long a step breaks the training. How long is that?
static void explain_limits(const Grid *grid) {
    const Cell *first = grid->cells[0], *last = grid->cells[NUM_K - 1];
    say("- The largest lr tried with which all %d runs learn something:", grid->seeds);
    for (int i = 0; i < NUM_K; i++) {
        int limit = largest_that_learns(grid->cells[i], grid->seeds);
        char *lr = limit < 0 ? xstrdup("none") : xprintf("%g", (double)grid->lr[limit]);
        printf("  %s with k = %d\n", lr, ks[i]);
        free(lr);
    }
    int at = 0;
    for (int j = 1; j < NUM_LR; j++)
        if (last[j].mean - first[j].mean > last[at].mean - first[at].mean) at = j;
    if (last[at].mean - first[at].mean > 2 * hypot(first[at].spread, last[at].spread))
        say("  With lr %g, k = 1 has %.3f ± %.3f and k = %d has %.3f ± %.3f: the larger "
            "minibatches bear a larger lr.",
            (double)grid->lr[at], first[at].mean, first[at].spread, ks[NUM_K - 1], last[at].mean,
            last[at].spread);
}

static void answer(const Flags *flags, const Grid *grid) {
    say("\nAnswer");
    if (!explain_best(flags, grid)) {
        say("- Not all of them have learned something (accuracy %g is guessing), so there is "
            "nothing to compare. Take more --epochs or a larger --train-size.",
            GUESSING);
        return;
    }
    explain_scaling(grid);
    explain_limits(grid);
    say("- Why a larger lr may be better: not the devices ask for it but the k times larger "
        "minibatches, that is, fewer updates, each with less noise, so each may go further. One "
        "device with minibatches of k*b would ask for the same.");
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    Dataset *data = fashion_mnist_open(flags->data, true, flags->train_size);
    Dataset *test_data = fashion_mnist_open(flags->data, false, flags->test_size);
    DataIter *test_iter = data_iter_new(test_data, 250, false, 0);
    Grid grid = {.seeds = flags->seeds};
    say("Question: which learning rate is best, and how does it scale with the number of devices "
        "k?");
    say("b = %d, %d training images, %d epoch%s, accuracy on %d test images, mean ± standard "
        "deviation of %d seeds\n",
        flags->batch_size, data->count, flags->epochs, flags->epochs > 1 ? "s" : "",
        test_data->count, flags->seeds);
    Prediction times = predict_first(
        "One device trains with minibatches of b images, 4 devices with minibatches of 4*b. How "
        "many times the best learning rate of one device will the best one of 4 devices be?");
    measure_all(flags, data, test_iter, &grid);
    float best_of_1 = grid.lr[best_of(grid.cells[0])];
    float best_of_4 = grid.lr[best_of(grid.cells[NUM_K - 1])];
    predict_compare(times, (double)(best_of_4 / best_of_1), "times");
    answer(flags, &grid);
    write_csv(csv, flags, &grid);
    data_iter_free(test_iter);
    dataset_free(data);
    dataset_free(test_data);
}

static void prepare(const Flags *flags) {
    choose_allreduce(flags->allreduce);
    if (flags->seeds < 2) die_usage("--seeds 2 or more", "one seed says nothing about chance");
}

int main(int argc, char *argv[]) {
    Flags defaults = default_flags;
    defaults.batch_size = 2;
    defaults.lr = 0.1f;
    defaults.train_size = 1280;
    defaults.test_size = 2000;
    defaults.epochs = 1;
    defaults.seeds = 12;
    defaults.quick_means = "--train-size 640 --test-size 1000 --seeds 4";
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: accuracy against learning rate, on 1, 2 and 4 devices.\n"
                             "--batch-size is b, the images of each device: k devices have "
                             "minibatches of k*b.",
                    .flags = "batch-size lr epochs seed seeds train-size test-size allreduce",
                    .defaults = defaults,
                    .prepare = prepare,
                    .parts = check_parts,
                    .passed = "accuracy after training on k devices; mean and standard deviation",
                    .experiment = experiment,
                    .plot = "exercise_learning_rates.gp"});
}
