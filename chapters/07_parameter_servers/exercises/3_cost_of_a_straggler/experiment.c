// experiment.c: softmax regression on eight workers, one of which is always slow, or each of which
// is slow now and then: the modelled time until a test accuracy is reached.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "crowd.h"

#include <math.h>
#include <stdlib.h>

// Times are modelled, in computations: who is not slow needs 1 for the gradients of its 8 images,
// with a tenth of chance, and 0.05 to push or to pull. Slow is 4 times as long.
enum { W = 8, ROWS = 8, STEPS = 96, SEEDS = 8, POINTS = 25, SLOW = 4 };

typedef enum { NOBODY, ALWAYS, BY_CHANCE, NUM_STRAGGLERS } Straggler;
static const char *const straggler_names[] = {"nobody is slow", "one worker is always slow",
                                              "each is slow in one step of 16"};

static Schedule schedule_of(Straggler who, Discipline how, uint64_t seed) {
    double slow[W] = {1, 1, 1, 1, 1, 1, 1, who == ALWAYS ? SLOW : 1};
    Pace pace = {.W = W, .compute = 1, .slow = slow, .jitter = 0.1, .stall = SLOW, .seed = seed};
    if (who == BY_CHANCE) pace.odds = 1 / 16.0;
    pace.transfer = 0.05, pace.busy = 0.01;
    return schedule_make(&pace, how, STEPS);
}

// All make as many updates' worth of pushes, STEPS for each worker; a backup worker's are missing.
enum { SYNC, SSP_3 = 2, NUM_HOWS = 7 };
static const Discipline hows[NUM_HOWS] = {{0, 0},        {1, 0}, {3, 0}, {8, 0},
                                          {NO_BOUND, 0}, {0, 1}, {0, 2}};

typedef struct Run {
    CrowdResult sum; // of SEEDS trainings
    // Their mean, and that of neighbours: accuracies jump by some hundredths.
    PsPoint smooth[POINTS];
} Run;
static Run runs[NUM_STRAGGLERS][NUM_HOWS];

static int hows_of(Straggler who) { return who == NOBODY ? SYNC + 1 : NUM_HOWS; }

static void train(PsLesson *l, Straggler who, Discipline how, uint64_t seed, Run *run) {
    for (int i = 0; i < SEEDS && !interrupted(); i++) {
        l->seed = seed * SEEDS + (uint64_t)i;
        Schedule s = schedule_of(who, how, l->seed);
        crowd_replay(l, &s, &run->sum);
        schedule_free(&s);
    }
    const PsPoint *points = run->sum.points;
    for (int p = 0; p < run->sum.count; p++) {
        int reach = p > 0 && p < run->sum.count - 1;
        double sum = 0;
        for (int q = p - reach; q <= p + reach; q++) sum += points[q].accuracy / SEEDS;
        run->smooth[p] =
            (PsPoint){points[p].pushes / SEEDS, points[p].time / SEEDS, sum / (2 * reach + 1)};
    }
}

static void train_all(const Flags *flags) {
    Dataset *images = fashion_mnist_open(flags->data, true, W * ROWS * STEPS);
    Dataset *test = fashion_mnist_open(flags->data, false, 1000);
    PsLesson l = {.W = W, .S = 1, .batch_size = W * ROWS, .lr = 0.1f, .points = POINTS - 1};
    l.train_data = images, l.test_data = test;
    for (Straggler who = NOBODY; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < hows_of(who); h++) train(&l, who, hows[h], flags->seed, &runs[who][h]);
    dataset_free(images);
    dataset_free(test);
}

static double best_of(const Run *run) {
    double best = 0;
    for (int p = 0; p < run->sum.count; p++) best = fmax(best, run->smooth[p].accuracy);
    return best;
}

// A little less than what all of them have reached.
static double common_goal(void) {
    double goal = 1;
    for (Straggler who = NOBODY; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < hows_of(who); h++) goal = fmin(goal, best_of(&runs[who][h]));
    return floor(100 * 0.95 * goal) / 100;
}

// Where a curve is at that accuracy for the first time: between two points it is a straight line.
static PsPoint reached(const Run *run, double goal) {
    const PsPoint *a = run->smooth;
    CHECK(a->accuracy < goal, "the goal is not reached at once");
    while (a[1].accuracy < goal) a++;
    double way = (goal - a->accuracy) / (a[1].accuracy - a->accuracy);
    return (PsPoint){.pushes = a->pushes + lround(way * (double)(a[1].pushes - a->pushes)),
                     .time = a->time + way * (a[1].time - a->time)};
}

// Pushes that are applied in the time of one computation.
static double speed(const Run *run) { return run->sum.applied / run->sum.seconds; }

static void add_run(Table *t, FILE *csv, int who, Discipline how, const Run *run, double goal) {
    const CrowdResult *r = &run->sum;
    char *name = discipline_name(how);
    PsPoint at = reached(run, goal);
    double times = at.time / reached(&runs[NOBODY][SYNC], goal).time;
    double dropped = r->dropped / (r->applied + r->dropped);
    table_text(t, "%s", name);
    table_numbers(t, speed(run), dropped, r->stale / r->applied, (double)at.pushes, at.time, times);
    for (int p = 0; p < r->count; p++)
        fprintf(csv, "curve,%d,%s,%.9g,%.6f,%.6f,,\n", who, name, run->smooth[p].time,
                r->points[p].accuracy / SEEDS, run->smooth[p].accuracy);
    fprintf(csv, "goal,%d,%s,%.9g,,%.6f,%.6g,%.6g\n", who, name, at.time, goal, times, dropped);
    free(name);
}

static void experiment(const Flags *flags, FILE *csv) {
    say("Softmax regression, %d workers, %d images each in a step, %d steps, %d trainings each. A "
        "slow worker takes %d times as long. Times are modelled, in computations of a worker that "
        "is not slow.",
        W, ROWS, STEPS, SEEDS, SLOW);
    Prediction ssp = predict_first(
        "One of eight workers is always four times as slow. With SSP 3 nobody is more than 3 steps "
        "ahead. How many pushes are made in the time of 100 synchronous ones?");
    train_all(flags);
    if (interrupted()) return;
    double goal = common_goal();
    say("\nUntil an accuracy of %.2f; a time of 1 is a computation. Times: as long as "
        "synchronously where nobody is slow.",
        goal);
    Table t = TABLE(NULL, WORDS("", 13), FIXED("pushes/time", 2), FIXED("dropped", 1, .unit = "%"),
                    FIXED("mean stale", 2), WHOLE("pushes"), FIXED("time", 1), FIXED("times", 2));
    table_head(&t);
    fprintf(csv, "part,straggler,way,time,accuracy,smooth,times,dropped\n");
    for (Straggler who = NOBODY; who < NUM_STRAGGLERS; who++) {
        printf("  %s\n", straggler_names[who]);
        for (int h = 0; h < hows_of(who); h++) add_run(&t, csv, who, hows[h], &runs[who][h], goal);
    }
    predict_compare(ssp, 100 * speed(&runs[ALWAYS][SSP_3]) / speed(&runs[ALWAYS][SYNC]), "pushes");
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: what a straggler costs, and who cuts that.",
                    .flags = "seed -machine",
                    .experiment = experiment,
                    .plot = "exercise_straggler.gp"});
}
