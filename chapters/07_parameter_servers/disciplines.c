// disciplines.c: see disciplines.h.
#include "disciplines.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/plot.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "findings.h"
#include "scaled_start.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *discipline_name(Discipline how) {
    if (how.backup > 0) return xprintf("%d backup", how.backup);
    if (how.staleness == 0) return xstrdup("synchronous");
    return how.staleness == NO_BOUND ? xstrdup("asynchronous") : xprintf("SSP %d", how.staleness);
}

long steps_in(Discipline how, int W, long clocks) { return clocks * W / (W - how.backup); }

// ---- figures -----------------------------------------------------------------------------------

double modelled_time(const PsResult *r) { return r->seconds; }

double mean_staleness(const PsResult *r) { return r->mean_staleness; }

double greatest_staleness(const PsResult *r) { return (double)r->most_staleness; }

double last_accuracy(const PsResult *r) {
    return r->count > 0 ? r->points[r->count - 1].accuracy : NAN;
}

double mean_accuracy(const PsResult *r) {
    double sum = 0;
    for (int p = 0; p < r->count; p++) sum += r->points[p].accuracy;
    return sum / r->count;
}

static double dropped_pushes(const PsResult *r) { return (double)r->dropped; }

static Spread spread(const double values[NUM_SEEDS]) {
    return (Spread){mean(values, NUM_SEEDS), minimum(values, NUM_SEEDS),
                    maximum(values, NUM_SEEDS)};
}

Spread spread_of(const WaitingWay *way, FigureOf *figure) {
    double values[NUM_SEEDS];
    for (int i = 0; i < NUM_SEEDS; i++) values[i] = figure(&way->results[i]);
    return spread(values);
}

CurvePoint curve_point(const WaitingWay *way, int p) {
    CurvePoint c = {0};
    double accuracy[NUM_SEEDS];
    for (int i = 0; i < NUM_SEEDS; i++) {
        const PsPoint *point = &way->results[i].points[p];
        c.pushes += (double)point->pushes / NUM_SEEDS;
        c.time += point->time / NUM_SEEDS;
        accuracy[i] = point->accuracy;
    }
    c.accuracy = spread(accuracy);
    return c;
}

// ---- one training ------------------------------------------------------------------------------

PsResult train_in_one_way(const PsLesson *lesson, const Schedule *schedule) {
    PsLesson l = *lesson;
    float *start = scaled_start(l.seed);
    l.start = start;
    PsResult result = ps_replay(&l, schedule);
    free(start);
    return result;
}

static Table begin_table(void) {
    printf("\n");
    return TABLE(NULL, WORDS("", 13), WHOLE("applied"), WHOLE("dropped"), FIXED("mean stale", 2),
                 WHOLE("max"), DIGITS("modelled", 3, .unit = "s"), FIXED("pushes/s", 1),
                 FIXED("accuracy", 4));
}

static void add_row(Table *t, const char *name, long applied, double dropped, double stale,
                    double most, double seconds, double accuracy) {
    table_text(t, "%s", name);
    table_numbers(t, applied, dropped, stale, most, seconds, (double)applied / seconds, accuracy);
}

// A worker that was lost ends a training that cannot do without it.
static void check_lost(const PsResult *r, const Pace *pace, Discipline how) {
    if (r->lost_worker < 0 && pace->dies >= 0)
        say("  Worker %d never came to its step %d: nobody died.", pace->dies, pace->at);
    if (r->lost_worker < 0) return;
    char event[120];
    snprintf(event, sizeof event, "worker %ld has not pushed its step %ld within %.3g s (modelled)",
             r->lost_worker, r->lost_clock, pace->timeout);
    if (pace->W == 1) die("--workers 2, say", "%s, and there are no others", event);
    if (how.staleness == 0 && how.backup == 0)
        die("synchronous training cannot go on without it: --staleness 1, or --backup 1", "%s",
            event);
    say("  W%s, and was given up; the others went on.", event + 1);
}

void train_one_way(const PsLesson *l, const Pace *pace, Discipline how, long clocks,
                   const char *path) {
    bool replay = path && access(path, F_OK) == 0;
    long steps = steps_in(how, l->W, clocks);
    Schedule schedule =
        replay ? schedule_read(path, pace, how, steps) : schedule_make(pace, how, steps);
    if (path && !replay) schedule_write(&schedule, path);
    if (path) printf("schedule: %s, %s\n", path, replay ? "replayed" : "written");
    char *name = discipline_name(how);
    PsLesson only_the_end = *l;
    only_the_end.points = 1;
    PsResult r = train_in_one_way(&only_the_end, &schedule);
    Table t = begin_table();
    add_row(&t, name, r.applied, (double)r.dropped, r.mean_staleness, (double)r.most_staleness,
            r.seconds, last_accuracy(&r));
    if (!interrupted()) check_lost(&r, pace, how);
    free(name);
    schedule_free(&schedule);
    ps_result_free(&r);
}

// ---- five ways ---------------------------------------------------------------------------------

static WaitingWay train_way(const PsLesson *lesson, const Pace *pace, Discipline how, long clocks) {
    WaitingWay way = {.name = discipline_name(how), .how = how};
    for (int i = 0; i < NUM_SEEDS && !interrupted(); i++) {
        PsLesson l = *lesson;
        Pace p = *pace;
        p.seed = l.seed = lesson->seed + (uint64_t)i;
        Schedule schedule = schedule_make(&p, how, steps_in(how, l.W, clocks));
        way.results[i] = train_in_one_way(&l, &schedule);
        schedule_free(&schedule);
    }
    return way;
}

enum { MANY = 8, RATE_SEEDS = 2 };

// Of MANY equally fast asynchronous workers, at the end, with so many times the learning rate.
static double accuracy_of_many(const PsLesson *lesson, const Pace *pace, long clocks, int times) {
    double mean = 0, slow[MANY];
    for (int w = 0; w < MANY; w++) slow[w] = 1;
    for (int i = 0; i < RATE_SEEDS && !interrupted(); i++) {
        PsLesson l = *lesson;
        Pace p = *pace;
        l.W = p.W = MANY;
        p.slow = slow;
        l.lr *= (float)times;
        l.may_diverge = true;
        l.points = 1;
        p.seed = l.seed = lesson->seed + (uint64_t)i;
        Schedule schedule = schedule_make(&p, (Discipline){NO_BOUND, 0}, clocks);
        PsResult r = train_in_one_way(&l, &schedule);
        mean += last_accuracy(&r) / RATE_SEEDS;
        ps_result_free(&r);
        schedule_free(&schedule);
    }
    return mean;
}

// MANY times the learning rate is the usual full rate: each push divided by its own rows.
static void compare_rates(const PsLesson *l, const Pace *pace, long clocks) {
    if (l->W == 1 || l->batch_size < MANY) return; // some would have no rows
    double shared = accuracy_of_many(l, pace, clocks, 1);
    double full = accuracy_of_many(l, pace, clocks, MANY);
    if (!interrupted())
        printf("\n  asynchronous, %d workers, %d seeds   test accuracy\n"
               "  lr/%d for each push %21.3f\n  the full lr for each push %15.3f\n",
               MANY, RATE_SEEDS, MANY, shared, full);
}

static void free_way(WaitingWay *way) {
    for (int i = 0; i < NUM_SEEDS; i++) ps_result_free(&way->results[i]);
    free(way->name);
}

static void add_way(Table *t, const WaitingWay *way) {
    add_row(t, way->name, way->results[0].applied, spread_of(way, dropped_pushes).mean,
            spread_of(way, mean_staleness).mean, spread_of(way, greatest_staleness).most,
            spread_of(way, modelled_time).mean, spread_of(way, last_accuracy).mean);
}

static void write_points(const char *path, const WaitingWay ways[], int n, const Pace *pace,
                         int S) {
    OutputFile out = output_open(path);
    const char *machine = modelled_machine()->name;
    double slowest = maximum(pace->slow, pace->W);
    fprintf(out.stream,
            "machine,workers,servers,seeds,slow,way,pushes,seconds,accuracy,least,most\n");
    for (int w = 0; w < n; w++)
        for (int p = 0; p < ways[w].results[0].count; p++) {
            CurvePoint point = curve_point(&ways[w], p);
            fprintf(out.stream, "%s,%d,%d,%d,%g,%s,%.6g,%.9g,%.6f,%.6f,%.6f\n", machine, pace->W, S,
                    NUM_SEEDS, slowest, ways[w].name, point.pushes, point.time, point.accuracy.mean,
                    point.accuracy.least, point.accuracy.most);
        }
    output_close(&out);
}

// Of the first seed. Rows without pushes are left out, and said to be so.
static void print_staleness(const WaitingWay *way) {
    const PsResult *r = &way->results[0];
    int before = -1;
    printf("\n  %s: pushes by staleness\n", way->name);
    for (int t = 0; t <= MOST_STALE; t++) {
        if (r->staleness[t] == 0) continue;
        if (t == before + 2) printf("  %10d   none\n", t - 1);
        if (t > before + 2) printf("  %3d to %3d   none\n", before + 1, t - 1);
        printf("  %10d%c %5ld %.*s\n", t, t == MOST_STALE ? '+' : ' ', r->staleness[t],
               (int)(50 * r->staleness[t] / (r->applied + 1)),
               "##################################################");
        before = t;
    }
}

double compare_disciplines(const PsLesson *l, const Pace *pace, long clocks) {
    const Discipline hows[] = {{0, 0}, {NO_BOUND, 0}, {1, 0}, {3, 0}, {0, 1}};
    enum { NUM = 5 };
    WaitingWay ways[NUM];
    int n = l->W > 1 ? NUM : NUM - 1, trained = 0; // who backs up, needs another one
    Table t = begin_table();
    table_head(&t);
    for (; trained < n && !interrupted(); trained++) {
        ways[trained] = train_way(l, pace, hows[trained], clocks);
        if (!interrupted()) add_way(&t, &ways[trained]);
    }
    double times = NAN;
    if (!interrupted()) {
        const char *csv = book_csv("_disciplines.csv"), *png = book_output("_disciplines.png");
        write_points(csv, ways, n, pace, l->S);
        print_staleness(&ways[1]);
        compare_rates(l, pace, clocks);
        times = tell_findings(ways, n, l, pace, clocks);
        if (plot_draw(png, "disciplines.gp", csv))
            printf("\naccuracy: %s, figures: %s\n", png, csv);
    }
    for (int w = 0; w < trained; w++) free_way(&ways[w]);
    return times;
}
