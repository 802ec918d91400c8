// experiment.c: LeNet with pushes of staleness 0, 1, 3, 7 and 15 and learning rates from 0.01 to
// 1.28, without your factor and with it: the largest learning rate with which it still learns.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "chapters/07_parameter_servers/scaled_start.h"
#include "your_part.h"

#include <math.h>
#include <stdlib.h>

// ## Trainings
//
// W workers that push in turns have a staleness of W - 1. All trainings have as many pushes, each
// of as many images, and each is a whole step: chapter 7 divides gradients by the images of all
// workers, which W times the learning rate makes up for.

enum { NUM_WS = 5, NUM_LRS = 8, IMAGES = 1024, ROWS = 8, PUSHES = 256 };
static const int workers[NUM_WS] = {1, 2, 4, 8, 16};

typedef struct Figures {
    double lrs[NUM_LRS];
    double loss[2][NUM_WS][NUM_LRS]; // [with the factor]
    double limit[2][NUM_WS];         // the largest learning rate with which it learns
} Figures;

static int staleness(int w) { return workers[w] - 1; }

static double loss_of(const Dataset *data, uint64_t seed, const float *start, int W, double lr,
                      AddPush *how) {
    PsLesson l = {.train_data = data,
                  .test_data = data,
                  .W = W,
                  .S = 1,
                  .batch_size = W * ROWS,
                  .lr = (float)(W * lr),
                  .seed = seed};
    Schedule s = schedule_in_turns(W, PUSHES);
    DelayedResult r = train_delayed(&l, &s, how, start);
    CHECK(interrupted() || isinf(r.loss) || r.staleness[W - 1] >= PUSHES - W + 1,
          "all pushes but those of the first round are as stale as is said");
    schedule_free(&s);
    free(r.params);
    return r.loss;
}

// ## How large the learning rate may be
//
// Who knows nothing has a loss of ln 10 for an image of ten classes. What has learned has at most
// 0.87 of that: 2.0. Between two learning rates the loss is taken for a straight line over the
// logarithm.

static const double KNOWS_NOTHING = 2.302585, LEARNED = 2.0;

static double limit_of(const Figures *f, const double loss[NUM_LRS]) {
    int i = NUM_LRS - 1;
    while (i >= 0 && loss[i] > LEARNED) i--;
    if (i < 0) return NAN;
    if (i == NUM_LRS - 1) return f->lrs[i];
    double above = fmin(loss[i + 1], KNOWS_NOTHING);
    return f->lrs[i] * pow(f->lrs[i + 1] / f->lrs[i], (LEARNED - loss[i]) / (above - loss[i]));
}

// On a parabola with curvature c, x -= lr c x(t steps ago) ends at 0 if lr c < 2 sin(pi/(4 t + 2)):
// as a part of what it may be without staleness.
static double parabola(int t) { return sin(M_PI / (4 * t + 2)); }

static void train_all(const Flags *flags, Figures *f) {
    Dataset *data = fashion_mnist_open(flags->data, true, IMAGES);
    float *start = scaled_start(flags->seed);
    for (int i = 0; i < NUM_LRS; i++) f->lrs[i] = 0.01 * (1 << i);
    for (int with = 0; with < 2; with++)
        for (int w = 0; w < NUM_WS; w++) {
            bool same = with && lr_factor(staleness(w)) == 1; // in all pushes
            for (int i = 0; i < NUM_LRS; i++)
                f->loss[with][w][i] = same ? f->loss[0][w][i]
                                           : loss_of(data, flags->seed, start, workers[w],
                                                     f->lrs[i], with ? add_stale_push : add_as_is);
            f->limit[with][w] = limit_of(f, f->loss[with][w]);
        }
    free(start);
    dataset_free(data);
}

// ## Figures

static void print_losses(const Figures *f, int with) {
    printf("\n  %s your factor: loss by learning rate\n  staleness ", with ? "With" : "Without");
    for (int i = 0; i < NUM_LRS; i++) printf(" %5.2g", f->lrs[i]);
    printf("   largest\n");
    for (int w = 0; w < NUM_WS; w++) {
        printf("  %9d ", staleness(w));
        for (int i = 0; i < NUM_LRS; i++)
            if (f->loss[with][w][i] < 10)
                printf(" %5.2f", f->loss[with][w][i]);
            else
                printf("     -");
        printf(" %9.3g\n", f->limit[with][w]);
    }
}

static void write_csv(FILE *csv, const Figures *f) {
    fprintf(csv, "part,factor,staleness,lr,loss,limit,parabola\n");
    for (int with = 0; with < 2; with++) {
        for (int w = 0; w < NUM_WS; w++)
            for (int i = 0; i < NUM_LRS; i++)
                fprintf(csv, "loss,%d,%d,%.6g,%.6g,,\n", with, staleness(w), f->lrs[i],
                        fmin(f->loss[with][w][i], 10));
        for (int w = 0; w < NUM_WS; w++)
            fprintf(csv, "limit,%d,%d,,,%.6g,%.6g\n", with, staleness(w), f->limit[with][w],
                    f->limit[0][0] * parabola(staleness(w)));
    }
}

static double part_left(const Figures *f, int with, int w) {
    return f->limit[with][w] / f->limit[0][0];
}

// Whether there is a learning rate for each of them.
static bool all_learned(const Figures *f) {
    for (int w = 0; w < NUM_WS; w++)
        if (isnan(f->limit[0][w]) || isnan(f->limit[1][w])) return false;
    return true;
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    static Figures f;
    say("Question: how much smaller must the learning rate be if pushes are stale?");
    say("LeNet, %d images, %d pushes of %d images each, of 1 to 16 workers in turns. Losses are "
        "those of the last quarter of the pushes; -: diverged.",
        IMAGES, PUSHES, ROWS);
    Prediction part = predict_first(
        "Each push has missed 15 others. What part of the largest learning rate without staleness "
        "may it have, in percent?");
    train_all(flags, &f);
    if (interrupted()) return;
    print_losses(&f, 0);
    print_losses(&f, 1);
    write_csv(csv, &f);
    if (!all_learned(&f)) {
        say("\nWith this --seed not all have a learning rate with which they learn: try another.");
        return;
    }
    predict_compare(part, 100 * part_left(&f, 0, NUM_WS - 1), "%");
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: how large a step may be when its gradient is old.",
                    .flags = "seed -machine",
                    .defaults = default_flags,
                    .parts = check_parts,
                    .passed = "stale pushes count 1/t, and the others as before, to the bit",
                    .experiment = experiment,
                    .plot = "exercise_staleness.gp"});
}
