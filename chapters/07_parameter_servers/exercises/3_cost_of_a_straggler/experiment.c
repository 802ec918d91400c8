// experiment.c: softmax regression on eight workers, one of which is always slow, or each of which
// is slow now and then: the modelled time until a test accuracy is reached, synchronously, with
// SSP, asynchronously, and with backup workers. Your rules say who goes on, and your time_to() when
// it is reached.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/interrupt.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "chapters/07_parameter_servers/disciplines.h"
#include "crowd.h"
#include "your_part.h"

#include <stdlib.h>

// ## Stragglers
//
// Times are modelled, in computations: who is not slow needs 1 for the gradients of its 8 images,
// with a tenth of chance, and 0.05 to push or to pull. Slow is 4 times as long.

enum { W = 8, ROWS = 8, STEPS = 96, SEEDS = 8, POINTS = 24, SLOW = 4 };
static const double ODDS = 1 / 16.0;

typedef enum { NOBODY, ALWAYS, BY_CHANCE, NUM_STRAGGLERS } Straggler;
static const char *const straggler_names[] = {"nobody is slow", "one worker is always slow",
                                              "each is slow in one step of 16"};

static Schedule schedule_of(Straggler who, Discipline how, uint64_t seed) {
    double slow[W];
    for (int w = 0; w < W; w++) slow[w] = 1;
    if (who == ALWAYS) slow[W - 1] = SLOW;
    Pace pace = {.W = W,
                 .compute = 1,
                 .slow = slow,
                 .jitter = 0.1,
                 .odds = who == BY_CHANCE ? ODDS : 0,
                 .stall = SLOW,
                 .transfer = 0.05,
                 .busy = 0.01,
                 .timeout = INFINITY,
                 .dies = -1,
                 .seed = seed};
    return schedule_by_rules(&pace, how, STEPS, &(Rules){may_begin, fate_of_push});
}

// ## Trainings
//
// All make as many updates' worth of pushes, STEPS for each worker; a backup worker's are missing.

enum { SYNC, SSP_1, SSP_3, SSP_8, ASYNC, BACKUP_1, BACKUP_2, NUM_HOWS };
static const Discipline hows[NUM_HOWS] = {{0, 0},        {1, 0}, {3, 0}, {8, 0},
                                          {NO_BOUND, 0}, {0, 1}, {0, 2}};

typedef struct Run {
    PsPoint points[POINTS + 1], smooth[POINTS + 1]; // mean of SEEDS trainings, and of neighbours
    int count;
    double applied, dropped, time, stale; // of all of them; stale: the mean
    long stalest;
    double seconds, pushes; // until the goal
} Run;

typedef struct Figures {
    Run even, runs[NUM_STRAGGLERS][NUM_HOWS]; // even: synchronous, nobody is slow
    double goal;
} Figures;

static void add_training(Run *run, const CrowdResult *r) {
    run->count = run->applied > 0 && run->count < r->count ? run->count : r->count;
    CHECK(run->count <= POINTS + 1, "room for the points");
    for (int p = 0; p < run->count; p++) {
        run->points[p].accuracy += r->points[p].accuracy / SEEDS;
        run->points[p].time += r->points[p].time / SEEDS;
        run->points[p].pushes += r->points[p].pushes / SEEDS;
    }
    run->applied += (double)r->applied;
    run->dropped += (double)r->dropped;
    run->time += r->seconds;
    run->stale += r->mean_staleness / SEEDS;
    if (r->most_staleness > run->stalest) run->stalest = r->most_staleness;
}

// Single accuracies jump by some hundredths: each becomes the mean of itself and its neighbours.
static void smooth_points(Run *run) {
    for (int p = 0; p < run->count; p++) {
        int reach = p > 0 && p < run->count - 1;
        double sum = 0;
        for (int q = p - reach; q <= p + reach; q++) sum += run->points[q].accuracy;
        run->smooth[p] = run->points[p];
        run->smooth[p].accuracy = sum / (2 * reach + 1);
    }
}

static void train(PsLesson *l, Straggler who, Discipline how, uint64_t seed, Run *run) {
    for (int i = 0; i < SEEDS && !interrupted(); i++) {
        l->seed = seed * SEEDS + (uint64_t)i;
        Schedule s = schedule_of(who, how, l->seed);
        CrowdResult r = crowd_replay(l, &s);
        add_training(run, &r);
        schedule_free(&s);
    }
    smooth_points(run);
}

static void train_all(const Flags *flags, Figures *f) {
    Dataset *images = fashion_mnist_open(flags->data, true, W * ROWS * STEPS);
    Dataset *test = fashion_mnist_open(flags->data, false, 1000);
    PsLesson l = {.train_data = images,
                  .test_data = test,
                  .W = W,
                  .S = 1,
                  .batch_size = W * ROWS,
                  .lr = 0.1f,
                  .points = POINTS};
    train(&l, NOBODY, hows[SYNC], flags->seed, &f->even);
    for (Straggler who = ALWAYS; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < NUM_HOWS; h++) train(&l, who, hows[h], flags->seed, &f->runs[who][h]);
    dataset_free(images);
    dataset_free(test);
}

// ## The same accuracy for all
//
// A little less than what all of them have reached.

static double best_of(const Run *run) {
    double best = 0;
    for (int p = 0; p < run->count; p++) best = fmax(best, run->smooth[p].accuracy);
    return best;
}

// How many pushes were applied until then: the same curve, over pushes.
static double pushes_to(const Run *run, double goal) {
    PsPoint over_pushes[POINTS + 1];
    for (int p = 0; p < run->count; p++) {
        over_pushes[p] = run->smooth[p];
        over_pushes[p].time = (double)run->smooth[p].pushes;
    }
    return time_to(over_pushes, run->count, goal);
}

static void time_run(Run *run, double goal) {
    run->seconds = time_to(run->smooth, run->count, goal);
    run->pushes = pushes_to(run, goal);
}

static void time_all(Figures *f) {
    f->goal = best_of(&f->even);
    for (Straggler who = ALWAYS; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < NUM_HOWS; h++) f->goal = fmin(f->goal, best_of(&f->runs[who][h]));
    f->goal = floor(100 * 0.95 * f->goal) / 100;
    time_run(&f->even, f->goal);
    for (Straggler who = ALWAYS; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < NUM_HOWS; h++) time_run(&f->runs[who][h], f->goal);
}

// ## Figures

static double times_even(const Figures *f, const Run *run) {
    return run->seconds / f->even.seconds;
}

static double dropped(const Run *run) { return run->dropped / (run->applied + run->dropped); }

// Pushes that are applied in the time of one computation.
static double speed(const Run *run) { return run->applied / run->time; }

static void add_run(Table *t, const Figures *f, Discipline how, const Run *run) {
    char *name = discipline_name(how);
    table_text(t, "%s", name);
    table_numbers(t, speed(run), dropped(run), run->stale, run->stalest, run->pushes, run->seconds,
                  times_even(f, run));
    free(name);
}

static void print_all(const Figures *f) {
    say("\nUntil an accuracy of %.2f; a time of 1 is a computation. Times: as long as "
        "synchronously "
        "where nobody is slow.",
        f->goal);
    Table t = TABLE(NULL, WORDS("", 13), FIXED("pushes/time", 2), FIXED("dropped", 1, .unit = "%"),
                    FIXED("mean stale", 2), WHOLE("max"), WHOLE("pushes"), FIXED("time", 1),
                    FIXED("times", 2));
    table_head(&t);
    for (Straggler who = NOBODY; who < NUM_STRAGGLERS; who++) {
        printf("  %s\n", straggler_names[who]);
        if (who == NOBODY) add_run(&t, f, hows[SYNC], &f->even);
        for (int h = 0; who > NOBODY && h < NUM_HOWS; h++)
            add_run(&t, f, hows[h], &f->runs[who][h]);
    }
}

static void write_run(FILE *csv, const Figures *f, Straggler who, Discipline how, const Run *run) {
    char *name = discipline_name(how);
    for (int p = 0; p < run->count; p++)
        fprintf(csv, "curve,%d,%s,%.9g,%.6f,%.6f,,\n", (int)who, name, run->smooth[p].time,
                run->points[p].accuracy, run->smooth[p].accuracy);
    fprintf(csv, "goal,%d,%s,%.9g,,%.6f,%.6g,%.6g\n", (int)who, name, run->seconds, f->goal,
            times_even(f, run), dropped(run));
    free(name);
}

static void write_csv(FILE *csv, const Figures *f) {
    fprintf(csv, "part,straggler,way,time,accuracy,smooth,times,dropped\n");
    write_run(csv, f, NOBODY, hows[SYNC], &f->even);
    for (Straggler who = ALWAYS; who < NUM_STRAGGLERS; who++)
        for (int h = 0; h < NUM_HOWS; h++) write_run(csv, f, who, hows[h], &f->runs[who][h]);
}

// Of pushes per time: what the schedule says, without the chance of single trainings.
static double faster(const Run runs[NUM_HOWS], int how) {
    return speed(&runs[how]) / speed(&runs[SYNC]);
}

// ## The experiment

static void experiment(const Flags *flags, FILE *csv) {
    static Figures f;
    say("Question: who is sooner at the same accuracy if workers are slow, SSP or backup workers?");
    say("Softmax regression, %d workers, %d images each in a step, %d steps, %d trainings each. A "
        "slow worker "
        "takes %d times as long. Times are modelled, in computations of a worker that is not slow.",
        W, ROWS, STEPS, SEEDS, SLOW);
    Prediction ssp = predict_first(
        "One of eight workers is always four times as slow. With SSP 3 nobody is more than 3 steps "
        "ahead. How many pushes are made in the time of 100 synchronous ones?");
    train_all(flags, &f);
    if (interrupted()) return;
    time_all(&f);
    print_all(&f);
    write_csv(csv, &f);
    predict_compare(ssp, 100 * faster(f.runs[ALWAYS], SSP_3), "pushes");
}

int main(int argc, char *argv[]) {
    return exercise_main(
        argc, argv,
        &(Exercise){.about = "Exercise 3: what a straggler costs, and who cuts that.",
                    .flags = "seed -machine",
                    .defaults = default_flags,
                    .experiment = experiment,
                    .plot = "exercise_straggler.gp"});
}
