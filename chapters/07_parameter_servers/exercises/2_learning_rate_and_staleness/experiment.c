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

// ## What they say

static double part_left(const Figures *f, int with, int w) {
    return f->limit[with][w] / f->limit[0][0];
}

static void explain_limits(const Figures *f) {
    double most = 0, least = INFINITY;
    for (int w = 2; w < NUM_WS; w++) {
        double product = staleness(w) * part_left(f, 0, w);
        most = fmax(most, product);
        least = fmin(least, product);
    }
    say("- Without a factor the largest learning rate with which LeNet learns (loss at most %.1f) "
        "is %.2g without staleness; with staleness %d it is %.2g of that, with %d %.2g, with %d "
        "%.2g. Staleness times this part is %.2g to %.2g from %d to %d: it falls %s 1/t.",
        LEARNED, f->limit[0][0], staleness(1), part_left(f, 0, 1), staleness(3), part_left(f, 0, 3),
        staleness(4), part_left(f, 0, 4), least, most, staleness(2), staleness(4),
        most < 2 * least ? "nearly as" : "about as");
    say("  A parabola has %.2g, %.2g and %.2g there: sin(pi/(4t + 2)), which is pi/(4t) for large "
        "t. A step comes from where the parameters were t steps ago. If the t steps since then "
        "have carried them across the valley, it pushes them on, away from it.",
        parabola(staleness(1)), parabola(staleness(3)), parabola(staleness(4)));
}

static void explain_factor(const Figures *f) {
    double least = 1, most = 0;
    for (int w = 1; w < NUM_WS; w++) {
        least = fmin(least, part_left(f, 1, w));
        most = fmax(most, part_left(f, 1, w));
    }
    say("- With your factor it is %.2g to %.2g of that without staleness: a learning rate of %.2g "
        "learns with all of these. Without the factor that takes %.2g, because of staleness %d.",
        least, most, least * f->limit[0][0], f->limit[0][4], staleness(4));
    say("  For staleness 1 the factor does nothing, and %.2g is left. To judge other rules, take "
        "the largest rate without a factor and divide it by theirs: 1/(t + 1) leaves %.2g, %.2g, "
        "%.2g and %.2g with staleness %d, %d, %d and %d. With 1/t^2 a rate %.2g times as large as "
        "without staleness learns with staleness %d: its steps are far smaller than they need be.",
        part_left(f, 0, 1), workers[1] * part_left(f, 0, 1), workers[2] * part_left(f, 0, 2),
        workers[3] * part_left(f, 0, 3), workers[4] * part_left(f, 0, 4), staleness(1),
        staleness(2), staleness(3), staleness(4), staleness(4) * staleness(4) * part_left(f, 0, 4),
        staleness(4));
}

// The first round's pushes are 0, 1, .., W - 1 updates old, but all come from the same parameters.
static void explain_first_round(const Figures *f) {
    const int w = NUM_WS - 1, t = staleness(w);
    double expected = t * f->limit[0][w], first = 0;
    for (int i = 0; i < workers[w]; i++) first += lr_factor(i);
    if (f->limit[1][w] > 0.8 * expected) return;
    say("  With staleness %d one would expect t times the rate without a factor, %.2g; it is %.2g. "
        "Look at the first round: its %d pushes all come from the parameters of the start, but are "
        "0 to %d updates old, so with the factor they add up to %.2g whole steps in one direction; "
        "those of a later round to %.2g.",
        t, expected, f->limit[1][w], workers[w], t, first, workers[w] * lr_factor(t));
}

static double best_loss(const double loss[NUM_LRS]) {
    double best = INFINITY;
    for (int i = 0; i < NUM_LRS; i++) best = fmin(best, loss[i]);
    return best;
}

static void explain_price(const Figures *f) {
    say("- What no factor brings back: after %d pushes the best loss is %.2f without staleness, "
        "and with staleness %d %.2f without the factor, %.2f with it. As many images in smaller "
        "steps bring one less far: what asynchronous training gains in time it pays for in steps.",
        PUSHES, best_loss(f->loss[0][0]), staleness(4), best_loss(f->loss[0][4]),
        best_loss(f->loss[1][4]));
    say("  (These are single trainings. Another --seed has other digits: try one before you rely "
        "on "
        "them.)");
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
    say("\nAnswer");
    explain_limits(&f);
    explain_factor(&f);
    explain_first_round(&f);
    explain_price(&f);
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 2: how large a step may be when its gradient is old.",
                    .flags = "seed",
                    .defaults = default_flags,
                    .parts = check_parts,
                    .passed = "stale pushes count 1/t, and the others as before, to the bit",
                    .experiment = experiment,
                    .plot = "exercise_staleness.gp"});
}
