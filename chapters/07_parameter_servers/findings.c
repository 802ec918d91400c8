// findings.c: see findings.h.
#include "findings.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "common/program/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SYNC, ASYNC, SSP_1, SSP_3, BACKUP, NUM_WAYS };

static bool somebody_is_slow(const Pace *pace) {
    for (int w = 0; w < pace->W; w++)
        if (pace->slow[w] > 1) return true;
    return false;
}

// How many times as long a way takes as the asynchronous one.
static double times_async(const WaitingWay ways[], int w) {
    return spread_of(&ways[w], modelled_time).mean / spread_of(&ways[ASYNC], modelled_time).mean;
}

// ---- accuracy ----------------------------------------------------------------------------------

enum { CLASSES = 10 };

// The accuracy that all ways reach, a little less than the worst of them has at the end; 0: not all
// have learned something.
static double common_goal(const WaitingWay ways[], int n) {
    double least = 1;
    for (int w = 0; w < n; w++) least = fmin(least, spread_of(&ways[w], last_accuracy).mean);
    return least > 2.0 / CLASSES ? floor(100 * 0.95 * least) / 100 : 0;
}

// The first point at which the mean over the seeds has reached the goal.
static int point_of(const WaitingWay *way, double goal) {
    int p = 0;
    while (!(curve_point(way, p).accuracy.mean >= goal)) p++;
    return p;
}

static double time_of(const WaitingWay *way, int p) { return p < 0 ? 0 : curve_point(way, p).time; }

static void add_spread(Table *t, Spread s) { table_numbers(t, s.mean, s.least, s.most); }

static void print_accuracies(const WaitingWay ways[], int n, double goal) {
    say("\nTest accuracy of %d seeds: at the end, and the mean of %d points. After, up to: between "
        "which modelled seconds %.2f was reached (-: not by all)",
        NUM_SEEDS, NUM_POINTS, goal);
    Table t = TABLE(NULL, WORDS("", 13), FIXED("at the end", 3), FIXED("least", 3),
                    FIXED("most", 3), FIXED("mean", 3), FIXED("least", 3), FIXED("most", 3),
                    DIGITS("after", 3), DIGITS("up to", 3));
    for (int w = 0; w < n; w++) {
        int p = goal > 0 ? point_of(&ways[w], goal) : 0;
        table_text(&t, "%s", ways[w].name);
        add_spread(&t, spread_of(&ways[w], last_accuracy));
        add_spread(&t, spread_of(&ways[w], mean_accuracy));
        table_numbers(&t, goal > 0 ? time_of(&ways[w], p - 1) : NAN,
                      goal > 0 ? time_of(&ways[w], p) : NAN);
    }
    const CurvePoint sync = curve_point(&ways[SYNC], 0), async = curve_point(&ways[ASYNC], 0);
    say("  A point every %.3g pushes: every %.2g modelled seconds of synchronous training, every "
        "%.2g of asynchronous. When an accuracy was reached is known no better than that.",
        (double)ways[SYNC].results[0].applied / NUM_POINTS, sync.time, async.time);
}

// All seeds of a way are above (1) or below (-1) all synchronous ones.
static int stands_out(const WaitingWay ways[], int w) {
    Spread mine = spread_of(&ways[w], mean_accuracy), sync = spread_of(&ways[SYNC], mean_accuracy);
    return (mine.least > sync.most) - (mine.most < sync.least);
}

static void explain_accuracy(const WaitingWay ways[], int n) {
    double least = 1, most = 0, seeds = 0;
    int outside = 0;
    for (int w = 0; w < n; w++) {
        Spread s = spread_of(&ways[w], mean_accuracy);
        least = fmin(least, s.mean);
        most = fmax(most, s.mean);
        seeds = fmax(seeds, s.most - s.least);
        outside += stands_out(ways, w) != 0;
    }
    say("  Accuracy, over as many pushes. The ways' means of their points are at most %.3f apart; "
        "the seeds of one way up to %.3f.",
        most - least, seeds);
    for (int w = 0; w < n; w++)
        if (stands_out(ways, w) != 0)
            say("  All seeds of %s are %s all synchronous ones.", ways[w].name,
                stands_out(ways, w) > 0 ? "above" : "below");
    if (outside == 0)
        say("  No way has all its seeds above, or all below, the synchronous ones: at lr/W for "
            "each "
            "push there is no difference here that is larger than that between seeds, though the "
            "asynchronous ones are %.2f updates old.",
            spread_of(&ways[ASYNC], mean_staleness).mean);
}

// Whoever reached the goal before all others: "asynchronous"; where others may have done so at the
// same time, them too: "asynchronous, or 1 backup". free() it.
static char *first_ones(const WaitingWay ways[], int n, double goal) {
    double soonest = INFINITY; // the end of somebody's interval
    for (int w = 0; w < n; w++)
        soonest = fmin(soonest, time_of(&ways[w], point_of(&ways[w], goal)));
    char *text = xstrdup("");
    for (int w = 0; w < n; w++) {
        if (time_of(&ways[w], point_of(&ways[w], goal) - 1) >= soonest) continue;
        char *more = xprintf("%s%s%s", text, *text ? ", or " : "", ways[w].name);
        free(text);
        text = more;
    }
    return text;
}

static void explain_accuracy_over_time(const WaitingWay ways[], int n, double goal) {
    if (goal == 0) {
        say("  Not all ways end with an accuracy above %.2g, of %d classes: there is nothing to "
            "compare over time. Give --epochs or --train-size more.",
            2.0 / CLASSES, CLASSES);
        return;
    }
    char *first = first_ones(ways, n, goal);
    say("  Accuracy, over time. The first whose seeds have %.2f on average: %s, as near as the "
        "points tell.",
        goal, first);
    free(first);
}

// ---- time and staleness ------------------------------------------------------------------------

static void explain_time(const WaitingWay ways[], int n, const Pace *pace) {
    long pushes = ways[SYNC].results[0].applied;
    if (!somebody_is_slow(pace)) {
        say("\n  Time. No worker is slow, and yet %ld synchronous pushes took %.2f times as long "
            "as asynchronous ones: all workers pull at once, and push at once, and the servers' "
            "links, which they wait for, have nothing to do while all compute. SSP 3 took %.2f "
            "times: a few steps ahead are enough for them to come at different times.",
            pushes, times_async(ways, SYNC), times_async(ways, SSP_3));
        return;
    }
    say("\n  Time. Synchronous training waits for the slowest worker in each step: its %ld pushes "
        "took %.2f times as long as the asynchronous ones. Bounded staleness lets the fast ones go "
        "ahead, but in the long run nobody can be faster than the slowest: SSP 3 took %.2f times.",
        pushes, times_async(ways, SYNC), times_async(ways, SSP_3));
    if (n == NUM_WAYS)
        say("  With a backup worker the last push of each update is thrown away instead, mostly "
            "the slow one's (%ld of them): %.2f times. For as many pushes it makes %.2f times as "
            "many updates, each of %d; an image that counts has the same weight as elsewhere.",
            ways[BACKUP].results[0].dropped, times_async(ways, BACKUP),
            (double)pace->W / (pace->W - 1), pace->W - 1);
}

static void explain_staleness(const WaitingWay ways[], const Pace *pace) {
    double mean = spread_of(&ways[ASYNC], mean_staleness).mean;
    say("  Staleness. An asynchronous push is applied after %.2f others on average that its worker "
        "had not seen. TensorFlow's guide says N-1 for N workers: %d. It is that if each worker "
        "pulls at once after its push, whether or not all are equally fast: whoever is slow is "
        "staler, and makes fewer pushes.",
        mean, pace->W - 1);
    double others = pace->W - 1, pushes = (double)ways[ASYNC].results[0].applied;
    double at_first = others * pace->W / 2 / pushes; // the first pushes of all miss 0, 1, 2, ..
    if (mean < 0.98 * others - at_first)
        say("  Here it is less: between its push and its pull a worker waits for the servers' "
            "links, and what the others push meanwhile it does not miss.");
    if (!somebody_is_slow(pace)) return;
    double one = spread_of(&ways[SSP_1], mean_staleness).mean;
    double three = spread_of(&ways[SSP_3], mean_staleness).mean;
    say("  The most is %.0f: so many pushes the others make while the slow one makes a step. SSP "
        "counts the steps that one worker is ahead; a push misses what all others have pushed. So "
        "the most is %.0f with SSP 1 and %.0f with SSP 3.",
        spread_of(&ways[ASYNC], greatest_staleness).most,
        spread_of(&ways[SSP_1], greatest_staleness).most,
        spread_of(&ways[SSP_3], greatest_staleness).most);
    if (fabs(one - three) < 0.1 * one)
        say("  On average it is nearly the same, %.2f and %.2f: once the fast ones are as far "
            "ahead as they may be, each of their steps waits for one of the slowest, whatever the "
            "bound.",
            one, three);
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

static void answer_synchronous(const WaitingWay *sync) {
    double missed = spread_of(sync, greatest_staleness).most;
    say("\nThree sentences of the text\n\n1. \"Synchronous: when all GPUs have computed, the new "
        "weights are computed, all GPUs get them, and the next round begins.\"\n   The most stale "
        "of %ld pushes had missed %.0f others.\n   -> %s",
        sync->results[0].applied, missed, missed == 0 ? "true" : "not true here");
}

static void answer_asynchronous(const WaitingWay ways[]) {
    double missed = spread_of(&ways[ASYNC], mean_staleness).mean;
    say("\n2. \"Asynchronous: each GPU, when it has computed its gradient, updates the weights at "
        "once, without waiting for the others, and synchronises.\"\n   It waits for nobody: %.2f "
        "times as many pushes in a second. But only who pushes gets the new weights; the others go "
        "on with old ones, and a push has missed %.2f others on average.\n   -> %s",
        times_async(ways, SYNC), missed,
        missed > 0 ? "half: nothing is synchronised by it" : "true");
}

static void answer_in_general(const WaitingWay ways[], const Pace *pace, long clocks) {
    double slow = times_async(ways, SYNC);
    double even =
        even_seconds(pace, ways[SYNC].how, clocks) / even_seconds(pace, ways[ASYNC].how, clocks);
    say("\n3. \"In general one uses data parallelism with synchronous updates.\"");
    if (somebody_is_slow(pace))
        say("   With a slow worker it takes %.2f times as long as asynchronous; with workers that "
            "are equally fast %.2f times.",
            slow, even);
    else
        say("   With workers that are equally fast it takes %.2f times as long as asynchronous.",
            slow);
    say("   But what it computes is chapter 4's training, to the bit, and that is one device's but "
        "for rounding; whoever was first, and in each run.");
    if (even > 1.1)
        say("   -> true where that is worth its price. Equal workers pay, too, on this network: "
            "they all pull and push at the same times, and wait for the servers' links, which are "
            "idle while they compute. A network that is faster next to the workers takes that "
            "price away%s.",
            somebody_is_slow(pace) ? ", not the slow worker's" : "");
    else
        say("   -> true where workers are alike: there it costs next to nothing. Where one is slow "
            "it has its price");
}

double tell_findings(const WaitingWay ways[], int n, const PsLesson *l, const Pace *pace,
                     long clocks) {
    double goal = common_goal(ways, n);
    print_accuracies(ways, n, goal);
    if (l->W > 1) {
        explain_time(ways, n, pace);
        explain_staleness(ways, pace);
        explain_accuracy(ways, n);
        explain_accuracy_over_time(ways, n, goal);
        answer_synchronous(&ways[SYNC]);
        answer_asynchronous(ways);
        answer_in_general(ways, pace, clocks);
    } else {
        say("\n  One worker waits for nobody, whatever the way.");
    }
    for (int w = 0; w < n; w++)
        CHECK((ways[w].how.staleness > 0) || spread_of(&ways[w], greatest_staleness).most == 0,
              "in rounds nothing is stale");
    return times_async(ways, SYNC);
}
