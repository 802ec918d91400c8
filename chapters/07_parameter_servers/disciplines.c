// disciplines.c: see disciplines.h.
#include "disciplines.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/book.h"
#include "common/program/interrupt.h"
#include "common/program/plot.h"
#include "common/program/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *discipline_name(Discipline how) {
    if (how.backup > 0) return xprintf("%d backup", how.backup);
    if (how.staleness == 0) return xstrdup("synchronous");
    return how.staleness == NO_BOUND ? xstrdup("asynchronous") : xprintf("SSP %d", how.staleness);
}

// ---- one way -----------------------------------------------------------------------------------

static bool needs_all(Discipline how) { return how.staleness == 0 && how.backup == 0; }

// A worker that was lost ends a training that cannot do without it.
static void check_lost(const PsResult *r, const Pace *pace, Discipline how) {
    if (r->lost_worker < 0) return;
    if (needs_all(how))
        die("synchronous training cannot go on without it: --staleness 1, or --backup 1",
            "worker %ld has not pushed its step %ld within %.3g s (modelled)", r->lost_worker,
            r->lost_clock, pace->timeout);
    say("  Worker %ld had not pushed its step %ld within %.3g s (modelled) and was given up; the "
        "others "
        "went on.",
        r->lost_worker, r->lost_clock, pace->timeout);
}

static void print_head(void) {
    printf("\n  %-13s %8s %8s %10s %10s %10s %9s\n", "", "pushes", "dropped", "staleness",
           "modelled", "pushes", "test");
    printf("  %-13s %8s %8s %10s %10s %10s %9s\n", "", "applied", "", "mean, max", "s", "per s",
           "accuracy");
}

static double last_accuracy(const PsResult *r) {
    return r->count > 0 ? r->points[r->count - 1].accuracy : NAN;
}

static void print_way(const WaitingWay *way) {
    const PsResult *r = &way->result;
    printf("  %-13s %8ld %8ld %6.2f, %2ld %10.3g %10.1f %9.4f\n", way->name, r->applied, r->dropped,
           r->mean_staleness, r->most_staleness, r->seconds, (double)r->applied / r->seconds,
           last_accuracy(r));
}

static WaitingWay train_way(const PsLesson *l, const Pace *pace, Discipline how, long clocks) {
    WaitingWay way = {.name = discipline_name(how), .how = how};
    way.schedule = schedule_make(pace, how, clocks);
    way.result = ps_replay(l, &way.schedule);
    return way;
}

static void free_way(WaitingWay *way) {
    schedule_free(&way->schedule);
    ps_result_free(&way->result);
    free((char *)way->name);
}

void train_one_way(const PsLesson *l, const Pace *pace, Discipline how, long clocks,
                   const char *path) {
    WaitingWay way = {.name = discipline_name(how), .how = how};
    bool replay = path && access(path, F_OK) == 0;
    way.schedule = replay ? schedule_read(path, l->W, how) : schedule_make(pace, how, clocks);
    if (path && !replay) schedule_write(&way.schedule, path);
    if (path) printf("schedule: %s, %s\n", path, replay ? "replayed" : "written");
    way.result = ps_replay(l, &way.schedule);
    print_head();
    print_way(&way);
    if (!interrupted()) check_lost(&way.result, pace, how);
    free_way(&way);
}

// ---- five ways ---------------------------------------------------------------------------------

static void write_points(const char *path, const WaitingWay ways[], int n) {
    OutputFile out = output_open(path);
    fprintf(out.stream, "way,pushes,seconds,accuracy\n");
    for (int w = 0; w < n; w++)
        for (int p = 0; p < ways[w].result.count; p++) {
            const PsPoint *point = &ways[w].result.points[p];
            fprintf(out.stream, "%s,%ld,%.9g,%.6f\n", ways[w].name, point->pushes, point->time,
                    point->accuracy);
        }
    output_close(&out);
}

// Modelled seconds until the accuracy was reached for the first time; NaN: never.
static double time_to(const PsResult *r, double accuracy) {
    for (int p = 0; p < r->count; p++)
        if (r->points[p].accuracy >= accuracy) return r->points[p].time;
    return NAN;
}

static double best_of_all(const WaitingWay ways[], int n) {
    double least = 1;
    for (int w = 0; w < n; w++) least = fmin(least, last_accuracy(&ways[w].result));
    return least;
}

// The accuracy that all of them reached, a little less than the worst of them has at the end.
static void compare_times(const WaitingWay ways[], int n) {
    double goal = floor(100 * 0.95 * best_of_all(ways, n)) / 100;
    say("\n  Modelled seconds until a test accuracy of %.2f, which all reach:", goal);
    double synchronous = time_to(&ways[0].result, goal);
    for (int w = 0; w < n; w++) {
        double seconds = time_to(&ways[w].result, goal);
        printf("  %-13s %7.3g s, %.2f of the synchronous time\n", ways[w].name, seconds,
               seconds / synchronous);
    }
}

static void explain(const WaitingWay ways[], const Pace *pace) {
    const PsResult *sync = &ways[0].result, *async = &ways[1].result;
    say("\n  Synchronous training waits for the slowest worker in each step: its %ld pushes took "
        "%.2f "
        "times as long as the asynchronous ones. A push of those is applied after %.2f others on "
        "average that its worker had not seen. (TensorFlow's guide says N-1 for N workers: %d. It "
        "is "
        "that, whether or not all are equally fast: whoever is slow is staler, and makes fewer "
        "pushes.)",
        sync->applied, sync->seconds / async->seconds, async->mean_staleness, pace->W - 1);
    say("  Bounded staleness lets the fast ones go ahead, but in the long run nobody can be faster "
        "than "
        "the slowest: SSP 3 takes %.2f times the asynchronous time. The backup worker's pushes are "
        "thrown away instead (%ld of them): %.2f times. (An update of its %d pushes is divided by "
        "their own "
        "rows, so each counts %.2f times as much as elsewhere.)",
        ways[3].result.seconds / async->seconds, ways[4].result.dropped,
        ways[4].result.seconds / async->seconds, pace->W - 1, (double)pace->W / (pace->W - 1));
}

static void print_staleness(const WaitingWay *way) {
    const PsResult *r = &way->result;
    printf("\n  %s: pushes by staleness\n", way->name);
    for (int t = 0; t <= MOST_STALE; t++)
        if (r->staleness[t] > 0)
            printf("  %4d %6ld %.*s\n", t, r->staleness[t],
                   (int)(50 * r->staleness[t] / (r->applied + 1)),
                   "##################################################");
}

// ---- what the text says ------------------------------------------------------------------------

// Seconds of a training in which all workers are equally fast.
static double even_seconds(const Pace *pace, Discipline how, long clocks) {
    double *even = xmalloc(sizeof *even * (size_t)pace->W);
    Pace p = *pace;
    for (int w = 0; w < p.W; w++) even[w] = 1;
    p.slow = even;
    Schedule s = schedule_make(&p, how, clocks);
    double seconds = s.list[s.count - 1].time;
    schedule_free(&s);
    free(even);
    return seconds;
}

static void answer_the_text(const WaitingWay ways[], const Pace *pace, long clocks) {
    const PsResult *sync = &ways[0].result, *async = &ways[1].result;
    double slow = sync->seconds / async->seconds;
    double even = even_seconds(pace, ways[0].how, clocks) / even_seconds(pace, ways[1].how, clocks);
    say("\nThree sentences of the text\n\n1. \"Synchronous: when all GPUs have computed, the new "
        "weights are "
        "computed, all GPUs get them, and the next round begins.\"\n   The most stale of %ld "
        "pushes had "
        "missed %ld others.\n   -> true",
        sync->applied, sync->most_staleness);
    say("\n2. \"Asynchronous: each GPU, when it has computed its gradient, updates the weights at "
        "once, "
        "without waiting for the others, and synchronises.\"\n   It waits for nobody: %.2f times "
        "as many "
        "pushes in a second. But only who pushes gets the new weights; the others go on with old "
        "ones, and "
        "a push has missed %.2f others on average.\n   -> half: nothing is synchronised by it",
        slow, async->mean_staleness);
    say("\n3. \"In general one uses data parallelism with synchronous updates.\"\n   With this "
        "slow worker "
        "it takes %.2f times as long as asynchronous; with workers that are equally fast %.2f "
        "times. And "
        "its bits are those of one device's steps, whoever was first.\n   -> true where workers "
        "are "
        "alike, as in a host with equal GPUs; where some are slow it has its price",
        slow, even);
    CHECK(sync->most_staleness == 0 && async->mean_staleness > 0 && even < slow,
          "what these answers rest on");
}

double compare_disciplines(const PsLesson *l, const Pace *pace, long clocks) {
    const Discipline hows[] = {{0, 0}, {NO_BOUND, 0}, {1, 0}, {3, 0}, {0, 1}};
    enum { NUM = 5 };
    WaitingWay ways[NUM];
    int n = l->W > 1 ? NUM : NUM - 1; // who backs up, needs another one
    print_head();
    for (int w = 0; w < n && !interrupted(); w++) {
        // As many images in all ways: with a backup worker more steps, of fewer pushes.
        long steps = hows[w].backup > 0 ? clocks * l->W / (l->W - hows[w].backup) : clocks;
        ways[w] = train_way(l, pace, hows[w], steps);
        print_way(&ways[w]);
    }
    if (interrupted()) return NAN;
    const char *csv = book_csv("_disciplines.csv"), *png = book_output("_disciplines.png");
    write_points(csv, ways, n);
    print_staleness(&ways[1]);
    if (n == NUM) explain(ways, pace);
    compare_times(ways, n);
    say("  (Accuracies of single trainings: from another --seed they differ by some hundredths. "
        "The times "
        "hardly do.)");
    if (n == NUM) answer_the_text(ways, pace, clocks);
    if (plot_draw(png, "disciplines.gp", csv)) printf("\naccuracy: %s, figures: %s\n", png, csv);
    double times = ways[0].result.seconds / ways[1].result.seconds;
    for (int w = 0; w < n; w++) free_way(&ways[w]);
    return times;
}
