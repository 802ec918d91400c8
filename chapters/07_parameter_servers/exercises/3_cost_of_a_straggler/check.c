// check.c: both rules must decide right in every situation of a few workers, and make chapter 7's
// schedules; times must be right for curves that rise, dip, and do not get there. What differs is
// tried out with the usual mistakes in it.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- bounded staleness -------------------------------------------------------------------------
//
// What a situation comes to: how far the worker is ahead of the slowest, of the mean, and so on.

typedef struct Ahead {
    long of_slowest, of_fastest, of_first, of_last;
    double of_mean;
} Ahead;

static Ahead ahead(long mine, const long steps[], int n) {
    long least = steps[0], most = steps[0], sum = 0;
    for (int i = 0; i < n; i++) {
        if (steps[i] < least) least = steps[i];
        if (steps[i] > most) most = steps[i];
        sum += steps[i];
    }
    return (Ahead){mine - least, mine - most, mine - steps[0], mine - steps[n - 1],
                   (double)mine - (double)sum / n};
}

typedef bool BoundRule(Ahead a, int s);
static bool right_bound(Ahead a, int s) { return a.of_slowest <= s; }
static bool one_less(Ahead a, int s) { return a.of_slowest < s; }
static bool one_more(Ahead a, int s) { return a.of_slowest <= s + 1; }
static bool fastest_behind(Ahead a, int s) { return -a.of_fastest <= s; }
static bool fastest_ahead(Ahead a, int s) { return a.of_fastest <= s; }
static bool by_mean(Ahead a, int s) { return a.of_mean <= s; }
static bool by_first(Ahead a, int s) { return a.of_first <= s; }
static bool by_last(Ahead a, int s) { return a.of_last <= s; }
static bool apart(Ahead a, int s) { return a.of_slowest - a.of_fastest <= s; }
static bool level(Ahead a, int s) { return s >= NO_BOUND || a.of_slowest == 0; }
static bool turned(Ahead a, int s) { return a.of_slowest >= s; }
static bool always(Ahead a, int s) { return a.of_slowest >= 0 || s >= 0; }
static bool nobody(Ahead a, int s) { return a.of_slowest < 0 && s < 0; }

static const struct {
    BoundRule *rule;
    const char *hint;
} bound_mistakes[] = {
    {one_less,
     "less than s steps ahead comes to this, or the step that begins counted, too: `mine` "
     "are the steps that are done, and s ahead is still allowed (< or <=?); with s = 0 "
     "nobody could ever begin"},
    {one_more, "s + 1 steps ahead comes to this: at most s; is there a 1 too many?"},
    {fastest_behind, "how far it is behind the fastest comes to this: the slowest counts; who is "
                     "behind is never held up"},
    {fastest_ahead, "a comparison with the fastest comes to this: nobody is ahead of that one, so "
                    "all may always begin; look for the slowest"},
    {by_mean, "a comparison with the mean comes to this: take the slowest"},
    {by_first, "a comparison with worker 0 comes to this: look at all of them"},
    {by_last, "a comparison with the last worker comes to this: look at all of them"},
    {apart, "how far the fastest is ahead of the slowest comes to this: that holds up the slowest, "
            "too, and then nobody goes on; `mine` is what counts"},
    {level,
     "waiting until all are level comes to this: that is s = 0; with s > 0 one may be ahead"},
    {turned, "the comparison is the wrong way round: at most s steps ahead"},
    {always, "always true is asynchronous: somebody must wait"},
    {nobody, "always false: then nobody ever begins"},
};
enum { NUM_BOUND_MISTAKES = sizeof bound_mistakes / sizeof *bound_mistakes };

enum { MOST_WAITING = 4, MOST_STEPS = 5, NUM_BOUNDS = 5 };
static const int bounds[NUM_BOUNDS] = {0, 1, 2, 3, NO_BOUND};

typedef struct Situation {
    int n, who, s;
    long steps[MOST_WAITING];
} Situation;

// Situation number i: n workers with 0 to MOST_STEPS - 1 steps each; false: there are no more.
static bool situation(int i, Situation *at) {
    for (at->n = 1; at->n <= MOST_WAITING; at->n++) {
        int all = at->n * NUM_BOUNDS;
        for (int w = 0; w < at->n; w++) all *= MOST_STEPS;
        if (i >= all) {
            i -= all;
            continue;
        }
        at->s = bounds[i % NUM_BOUNDS];
        i /= NUM_BOUNDS;
        at->who = i % at->n;
        i /= at->n;
        for (int w = 0; w < at->n; w++, i /= MOST_STEPS) at->steps[w] = i % MOST_STEPS;
        return true;
    }
    return false;
}

static bool yours_begins(const Situation *at) {
    return may_begin(at->steps[at->who], at->steps, at->n, at->s);
}

static bool begins(BoundRule *rule, const Situation *at) {
    return rule(ahead(at->steps[at->who], at->steps, at->n), at->s);
}

static const char *hint_for_bounds(void) {
    Situation at;
    for (int m = 0; m < NUM_BOUND_MISTAKES; m++) {
        bool explains = true;
        for (int i = 0; explains && situation(i, &at); i++)
            explains = yours_begins(&at) == begins(bound_mistakes[m].rule, &at);
        if (explains) return bound_mistakes[m].hint;
    }
    return "suspects: who is compared with whom (`mine` with the least of all steps[]), and how "
           "(at most s more); no single one explains it";
}

static char *steps_text(const Situation *at) {
    char *text = xstrdup("");
    for (int w = 0; w < at->n; w++) {
        char *longer = xprintf("%s%s%ld", text, w > 0 ? ", " : "", at->steps[w]);
        free(text);
        text = longer;
    }
    return text;
}

static void check_bounds(void) {
    Situation at;
    for (int i = 0; situation(i, &at); i++) {
        bool came = yours_begins(&at), right = begins(right_bound, &at);
        EXPECT(came == right, hint_for_bounds(),
               "may_begin(), workers have made %s steps, the bound is %d%s: one that has made %ld "
               "%s begin, expected that it %s",
               steps_text(&at), at.s, at.s == NO_BOUND ? " (none)" : "", at.steps[at.who],
               came ? "may" : "may not", right ? "may" : "may not");
    }
}

// ---- backup workers ----------------------------------------------------------------------------

typedef struct Arrival {
    long step, updates;
    int taken, W, backup;
} Arrival;

typedef PushFate FateRule(const Arrival *a);
static bool is_late(const Arrival *a) { return a->step < a->updates; }
static PushFate taken_of(const Arrival *a, int needed) {
    return a->taken + 1 >= needed ? PUSH_COMPLETES : PUSH_TAKEN;
}
static PushFate unless(bool dropped, PushFate fate) { return dropped ? PUSH_DROPPED : fate; }

static PushFate right_fate(const Arrival *a) {
    return unless(is_late(a), taken_of(a, a->W - a->backup));
}
static PushFate late_too(const Arrival *a) { return taken_of(a, a->W - a->backup); }
static PushFate late_by_two(const Arrival *a) {
    return unless(a->step + 1 < a->updates, taken_of(a, a->W - a->backup));
}
static PushFate drops_equal(const Arrival *a) {
    return unless(a->step <= a->updates, taken_of(a, a->W - a->backup));
}
static PushFate drops_present(const Arrival *a) {
    return unless(a->step == a->updates, taken_of(a, a->W - a->backup));
}
static PushFate all_of_them(const Arrival *a) { return unless(is_late(a), taken_of(a, a->W)); }
static PushFate all_and_late(const Arrival *a) { return taken_of(a, a->W); }
static PushFate one_too_many(const Arrival *a) {
    return unless(is_late(a), taken_of(a, a->W - a->backup + 1));
}
static PushFate one_too_few(const Arrival *a) {
    return unless(is_late(a), taken_of(a, a->W - a->backup - 1));
}
static PushFate first_backups(const Arrival *a) {
    return unless(is_late(a), taken_of(a, a->backup));
}
static PushFate at_once(const Arrival *a) { return unless(is_late(a), PUSH_COMPLETES); }
static PushFate never_done(const Arrival *a) { return unless(is_late(a), PUSH_TAKEN); }
static PushFate not_dropped(const Arrival *a) { return a->W > 0 ? PUSH_TAKEN : PUSH_DROPPED; }
static PushFate drops_last(const Arrival *a) {
    PushFate fate = taken_of(a, a->W - a->backup);
    return unless(is_late(a) || fate == PUSH_COMPLETES, fate);
}

static const struct {
    FateRule *rule;
    const char *hint;
} fate_mistakes[] = {
    {late_too, "a late push that is taken comes to this: its round has ended, and what it belongs "
               "to has been updated without it; drop it"},
    {late_by_two, "dropping only what is two rounds late comes to this: `updates` rounds have "
                  "ended, so the present one is number `updates`, and one before it is late"},
    {drops_equal, "every push is dropped: those of the present round, which is number `updates`, "
                  "are in time (< or <=?)"},
    {drops_present, "dropping pushes of the present round, and taking late ones, comes to this: "
                    "the other way round"},
    {all_of_them, "waiting for all W comes to this: the first W - backup are enough, that is what "
                  "the backup is for"},
    {all_and_late, "taking everything, and an update with every W, comes to this: only the first "
                   "W - backup of the present round count"},
    {one_too_many,
     "one push too many comes to this: `taken` are there already, and this one is one "
     "more"},
    {one_too_few, "one push too few comes to this: `taken` does not count this one, so there are "
                  "taken + 1"},
    {first_backups, "an update of `backup` pushes comes to this: so many are left out; it needs "
                    "W - backup"},
    {at_once, "an update with each push comes to this: that is asynchronous; wait for W - backup"},
    {never_done, "no push completes its round: then nobody ever goes on; which is the last that it "
                 "needs?"},
    {not_dropped, "every push is taken: late ones are dropped, and the last one that a round needs "
                  "completes it"},
    {drops_last, "dropping the push that completes the round comes to this: it belongs to it; "
                 "those that come after it are dropped"},
};
enum { NUM_FATE_MISTAKES = sizeof fate_mistakes / sizeof *fate_mistakes };

// Arrival number i, of 2 to 5 workers; false: there are no more.
static bool arrival(int i, Arrival *at) {
    enum { UPDATES = 4 };
    for (at->W = 2; at->W <= 5; at->W++)
        for (at->backup = 0; at->backup < at->W; at->backup++)
            for (at->taken = 0; at->taken < at->W - at->backup; at->taken++)
                for (at->updates = 0; at->updates < UPDATES; at->updates++)
                    for (at->step = at->updates; at->step >= 0; at->step--)
                        if (i-- == 0) return true;
    return false;
}

static PushFate your_fate(const Arrival *a) {
    return fate_of_push(a->step, a->updates, a->taken, a->W, a->backup);
}

static const char *hint_for_fates(void) {
    Arrival at;
    for (int m = 0; m < NUM_FATE_MISTAKES; m++) {
        bool explains = true;
        for (int i = 0; explains && arrival(i, &at); i++)
            explains = your_fate(&at) == fate_mistakes[m].rule(&at);
        if (explains) return fate_mistakes[m].hint;
    }
    return "suspects: which rounds have ended (those before `updates`), how many pushes the round "
           "has with this one (taken + 1) and needs (W - backup); no single one explains it";
}

static const char *fate_name(PushFate fate) {
    return fate == PUSH_DROPPED     ? "PUSH_DROPPED"
           : fate == PUSH_TAKEN     ? "PUSH_TAKEN"
           : fate == PUSH_COMPLETES ? "PUSH_COMPLETES"
                                    : "none of the three";
}

// What is asked of an arrival: whether it comes in time, and what a push in time does to its round.
typedef enum { IN_TIME, COUNTS } Asked;

static void check_fates(Asked asked) {
    Arrival at;
    for (int i = 0; arrival(i, &at); i++) {
        PushFate came = your_fate(&at), right = right_fate(&at);
        bool agrees = came == right;
        if (asked == IN_TIME) agrees = (came == PUSH_DROPPED) == is_late(&at);
        if (asked == COUNTS && is_late(&at)) continue;
        EXPECT(agrees, hint_for_fates(),
               "fate_of_push(), %d workers, %d of them backup, %ld updates made, %d pushes of the "
               "present round taken, a push of round %ld arrives: %s, expected %s",
               at.W, at.backup, at.updates, at.taken, at.step, fate_name(came), fate_name(right));
    }
}

// Rules of which you answer one question, and the chapter's rule the other: who has one of them
// wrong has not both wrong.
static PushFate drops_yours(long step, long updates, int taken, int W, int backup) {
    const Arrival at = {step, updates, taken, W, backup};
    return unless(your_fate(&at) == PUSH_DROPPED, taken_of(&at, W - backup));
}
static PushFate counts_yours(long step, long updates, int taken, int W, int backup) {
    const Arrival at = {step, updates, taken, W, backup};
    return is_late(&at) ? PUSH_DROPPED : your_fate(&at);
}

// ---- in a schedule -----------------------------------------------------------------------------

static void check_schedule(Discipline how, const Rules *yours, bool by_chance) {
    enum { W = 5, STEPS = 40 };
    double slow[W] = {1, 1, 1, 1, by_chance ? 1 : 4};
    Pace pace = {.W = W,
                 .compute = 1,
                 .slow = slow,
                 .jitter = 0.3,
                 .odds = by_chance ? 0.1 : 0,
                 .stall = 4,
                 .transfer = 0.1,
                 .busy = 0.02,
                 .timeout = INFINITY,
                 .dies = -1,
                 .seed = 1};
    Schedule came = schedule_by_rules(&pace, how, STEPS, yours);
    Schedule right = schedule_make(&pace, how, STEPS);
    bool same = came.count == right.count;
    for (int i = 0; same && i < right.count; i++) {
        const Happening *a = &came.list[i], *b = &right.list[i];
        same = a->kind == b->kind && a->worker == b->worker && a->time == b->time;
    }
    EXPECT(same,
           "the rule was right when it was asked alone: does it keep something from one call to "
           "the next? All that it needs is in its arguments",
           "a schedule with staleness %d and %d backup workers has %d events, expected the %d of "
           "chapter 7's",
           how.staleness, how.backup, came.count, right.count);
    schedule_free(&came);
    schedule_free(&right);
}

// ---- times -------------------------------------------------------------------------------------

enum { MOST_POINTS = 6 };
typedef struct Curve {
    const char *name;
    int n;
    double goal;
    PsPoint points[MOST_POINTS]; // .time and .accuracy
} Curve;

#define AT(t, a)                                                                                   \
    { .time = (t), .accuracy = (a) }
// The first NUM_RISING are at the goal between two points, the others at a point, or never: so
// these need no straight line.
static const Curve curves[] = {
    {"rising", 4, 0.5, {AT(1, 0.125), AT(3, 0.25), AT(7, 0.75), AT(8, 0.875)}},
    {"rising in the last piece", 3, 0.75, {AT(2, 0.25), AT(4, 0.5), AT(12, 1)}},
    {"rising less and less", 4, 0.5, {AT(10, 0.375), AT(20, 0.625), AT(30, 0.75), AT(40, 0.8)}},
    {"dipping", 6, 0.5, {AT(1, 0), AT(2, 0.5), AT(4, 0.625), AT(5, 0.25), AT(6, 0.75), AT(7, 1)}},
    {"dipping at the end", 4, 0.5, {AT(1, 0.25), AT(3, 0.5), AT(4, 0.375), AT(6, 0.25)}},
    {"there at a point", 4, 0.5, {AT(1, 0.25), AT(2, 0.5), AT(3, 0.5), AT(4, 0.75)}},
    {"there at the last point", 3, 0.5, {AT(1, 0.125), AT(2, 0.25), AT(4, 0.5)}},
    {"there from the first point on", 3, 0.5, {AT(3, 0.625), AT(4, 0.75), AT(5, 0.875)}},
    {"of one point", 1, 0.5, {AT(3, 0.5)}},
    {"that never gets there", 3, 0.5, {AT(1, 0.125), AT(2, 0.25), AT(3, 0.375)}},
    {"without points", 0, 0.5, {AT(7, 1)}},
};
enum { NUM_RISING = 3, NUM_CURVES = sizeof curves / sizeof *curves };

// The first point from `from` on that is at the goal; n: there is none.
static int reached(const Curve *c, int from) {
    int p = from;
    while (p < c->n && c->points[p].accuracy < c->goal) p++;
    return p;
}

static double between(const Curve *c, int p) {
    if (p == c->n) return INFINITY;
    if (p == 0) return c->points[0].time;
    const PsPoint *a = &c->points[p - 1], *b = &c->points[p];
    return a->time + (c->goal - a->accuracy) / (b->accuracy - a->accuracy) * (b->time - a->time);
}

typedef double TimeRule(const Curve *c);
static double right_time(const Curve *c) { return between(c, reached(c, 0)); }
static double point_after(const Curve *c) {
    int p = reached(c, 0);
    return p < c->n ? c->points[p].time : INFINITY;
}
static double point_before(const Curve *c) {
    int p = reached(c, 0);
    return p < c->n ? c->points[p > 0 ? p - 1 : 0].time : INFINITY;
}
static double halfway(const Curve *c) {
    return (point_before(c) + point_after(c)) / 2; // INFINITY, too
}
static double turned_round(const Curve *c) {
    return point_before(c) < INFINITY ? point_before(c) + point_after(c) - right_time(c) : INFINITY;
}
static double strictly_above(const Curve *c) {
    int p = 0;
    while (p < c->n && !(c->points[p].accuracy > c->goal)) p++;
    return between(c, p);
}
static double for_good(const Curve *c) {
    int p = c->n;
    while (p > 0 && c->points[p - 1].accuracy >= c->goal) p--;
    return between(c, p);
}
static double last_time_up(const Curve *c) {
    int last = c->n;
    for (int p = 0; p < c->n; p++)
        if (c->points[p].accuracy >= c->goal && (p == 0 || c->points[p - 1].accuracy < c->goal))
            last = p;
    return between(c, last);
}
static double from_the_origin(const Curve *c) {
    bool first = reached(c, 0) == 0 && c->n > 0;
    return first ? c->goal / c->points[0].accuracy * c->points[0].time : right_time(c);
}
static double first_is_0(const Curve *c) {
    return reached(c, 0) == 0 && c->n > 0 ? 0 : right_time(c);
}
static double skips_first(const Curve *c) {
    return c->n > 0 ? between(c, reached(c, 1)) : INFINITY;
}
static double never_is(const Curve *c, double never) {
    return reached(c, 0) < c->n ? right_time(c) : never;
}
static double never_is_0(const Curve *c) { return never_is(c, 0); }
static double never_is_less(const Curve *c) { return never_is(c, -1); }
static double never_is_nan(const Curve *c) { return never_is(c, NAN); }
static double never_is_last(const Curve *c) {
    return never_is(c, c->n > 0 ? c->points[c->n - 1].time : INFINITY);
}

static const struct {
    TimeRule *rule;
    const char *hint;
} time_mistakes[] = {
    {point_after, "the time of the first point that is there comes to this: the curve was there "
                  "before, on the straight line from the point before it"},
    {point_before, "the time of the point before comes to this: it was not there yet; the straight "
                   "line to the next point says when"},
    {halfway, "halfway between two points comes to this: how far the goal is between their "
              "accuracies says how far the time is between theirs"},
    {turned_round, "the straight line the wrong way round comes to this: (goal - a) / (b - a) of "
                   "the way from a to b"},
    {strictly_above, "waiting until it is above the goal comes to this: at the goal is enough (> "
                     "or >=?)"},
    {for_good, "the time from which on it stays there comes to this: the first time counts, "
               "whatever follows"},
    {last_time_up, "the last time that it comes up to the goal comes to this: the first time "
                   "counts; leave the loop there"},
    {from_the_origin, "a straight line from time 0 and accuracy 0 to the first point comes to "
                      "this: nothing is known before that, so take its time"},
    {first_is_0, "0, where the first point is there already, comes to this: take its time"},
    {skips_first, "beginning with the second point comes to this: the first one may be there"},
    {never_is_0, "0 for never comes to this: that would be the best of all; INFINITY"},
    {never_is_less, "-1 for never comes to this: that would be the best of all; INFINITY"},
    {never_is_nan, "NAN for never comes to this: that is neither more nor less than any other "
                   "time; INFINITY is more"},
    {never_is_last, "the last time for never comes to this: it is not there yet; INFINITY"},
};
enum { NUM_TIME_MISTAKES = sizeof time_mistakes / sizeof *time_mistakes };

static double your_time(const Curve *c) { return time_to(c->points, c->n, c->goal); }

static bool same_time(double a, double b) {
    if (isinf(a) || isinf(b)) return a == b;
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(b);
}

static const char *hint_for_times(void) {
    for (int m = 0; m < NUM_TIME_MISTAKES; m++) {
        bool explains = true;
        for (int c = 0; c < NUM_CURVES && explains; c++)
            explains = same_time(your_time(&curves[c]), time_mistakes[m].rule(&curves[c]));
        if (explains) return time_mistakes[m].hint;
    }
    return "suspects: which two points (the first that is at the goal, and the one before it), the "
           "straight line between them, the first point, never (INFINITY); no single one explains "
           "it";
}

static void check_times(int first, int end) {
    for (int i = first; i < end; i++) {
        const Curve *c = &curves[i];
        double came = your_time(c), right = right_time(c);
        EXPECT(same_time(came, right), hint_for_times(),
               "time_to(), a curve %s, to an accuracy of %g: %.6g, expected %.6g", c->name, c->goal,
               came, right);
    }
}

// ---- the parts ---------------------------------------------------------------------------------

static void check_in_schedules(const Discipline hows[], int n, Rules yours) {
    for (int h = 0; h < n; h++)
        for (int by_chance = 0; by_chance < 2; by_chance++)
            check_schedule(hows[h], &yours, by_chance);
}

// (In schedules with a bound no fate is asked for, in those with backup workers no bound.)
static const Discipline with_bound[] = {{0, 0}, {1, 0}, {3, 0}, {NO_BOUND, 0}};
static const Discipline with_backup[] = {{0, 1}, {0, 2}};

static void check_may_begin(const Flags *flags) {
    (void)flags;
    check_bounds();
    check_in_schedules(with_bound, 4, (Rules){may_begin, fate_of_push});
}
static void check_counting(const Flags *flags) {
    (void)flags;
    check_fates(COUNTS);
    check_in_schedules(with_backup, 2, (Rules){may_begin, counts_yours});
}
static void check_dropping(const Flags *flags) {
    (void)flags;
    check_fates(IN_TIME);
    check_in_schedules(with_backup, 2, (Rules){may_begin, drops_yours});
}
static void check_rising(const Flags *flags) {
    (void)flags;
    check_times(0, NUM_RISING);
}
static void check_first_time(const Flags *flags) {
    (void)flags;
    check_times(NUM_RISING, NUM_CURVES);
}

const CheckPart check_parts[] = {
    {"may_begin(): a worker waits when it is more than the bound ahead of the slowest, else not", 3,
     check_may_begin},
    {"fate_of_push(): the last push that a round needs completes it, those before are taken", 2,
     check_counting},
    {"fate_of_push(): pushes of rounds that have ended are dropped, and no others", 1,
     check_dropping},
    {"time_to(): between two points it is on their straight line", 2, check_rising},
    {"time_to(): the first time counts, also if the curve dips, or is there at once, or never", 2,
     check_first_time},
    {0}};
