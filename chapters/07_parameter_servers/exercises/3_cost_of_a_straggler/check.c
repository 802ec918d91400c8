// check.c: two workers in all situations, then several, who must be held up when one of the others
// holds them up; rounds of backup workers, push by push; both rules in chapter 7's schedules; and
// times that were read by hand from curves that rise, dip, and do not get there.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- bounded staleness: two workers ------------------------------------------------------------

enum { MOST_WAITING = 4, MOST_STEPS = 5, NUM_BOUNDS = 5 };

// With this bound, whether a worker may begin that has made 0, 1, 2, 3 and 4 steps more than the
// other: y or n.
static const struct {
    int bound;
    const char *ahead;
} two_workers[NUM_BOUNDS] = {
    {0, "ynnnn"}, {1, "yynnn"}, {2, "yyynn"}, {3, "yyyyn"}, {NO_BOUND, "yyyyy"}};

static bool begins_next_to(long mine, long others, int bound) {
    return may_begin(mine, (long[]){others, mine}, 2, bound);
}

// Whether the same is said of all pairs.
static bool says_always(bool answer) {
    for (int b = 0; b < NUM_BOUNDS; b++)
        for (long mine = 0; mine < MOST_STEPS; mine++)
            for (long others = 0; others < MOST_STEPS; others++)
                if (begins_next_to(mine, others, two_workers[b].bound) != answer ||
                    may_begin(mine, (long[]){mine, others}, 2, two_workers[b].bound) != answer)
                    return false;
    return true;
}

static const char *hint_for_two(long mine, long others, int bound, bool came) {
    if (says_always(came))
        return came ? "always true is asynchronous: somebody must wait"
                    : "always false: then nobody ever begins";
    if (mine <= others && !came)
        return "who is level with the slowest, or is it, is never held up: then nobody would ever "
               "go on. Is `mine` compared with the slowest, and not the fastest with something? "
               "With a bound of s, s steps ahead is still allowed (< or <=?)";
    if (!came && bound > 0 && mine - others < bound)
        return "waiting until all are level comes to this: that is a bound of 0";
    if (!came)
        return "as many steps ahead as the bound is still allowed (< or <=?): `mine` are the steps "
               "that are done, without the one that begins";
    if (mine - others == bound + 1)
        return "one step too many: with a bound of s at most s steps ahead. Is there a 1 too many? "
               "Is `mine` compared with the slowest of steps[], and not with the mean, the "
               "fastest or itself?";
    return "it is too far ahead of the slowest; is `mine` compared with that one? Nobody is ahead "
           "of the fastest, and the mean is not the slowest";
}

static void check_two(void) {
    for (int b = 0; b < NUM_BOUNDS; b++)
        for (long mine = 0; mine < MOST_STEPS; mine++)
            for (long others = 0; others < MOST_STEPS; others++) {
                int bound = two_workers[b].bound;
                long ahead = mine > others ? mine - others : 0; // who is behind is not held up
                bool came = begins_next_to(mine, others, bound);
                bool right = two_workers[b].ahead[ahead] == 'y';
                EXPECT(came == right, hint_for_two(mine, others, bound, came),
                       "may_begin(), two workers, the bound is %d%s: one that has made %ld steps "
                       "%s begin when the other has made %ld, expected that it %s",
                       bound, bound == NO_BOUND ? " (none)" : "", mine, came ? "may" : "may not",
                       others, right ? "may" : "may not");
            }
}

// ---- and several -------------------------------------------------------------------------------

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
        at->s = two_workers[i % NUM_BOUNDS].bound;
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

static char *steps_text(const Situation *at) {
    char *text = xstrdup("");
    for (int w = 0; w < at->n; w++) {
        char *longer = xprintf("%s%s%ld", text, w > 0 ? ", " : "", at->steps[w]);
        free(text);
        text = longer;
    }
    return text;
}

// Who may begin next to each of the others alone may begin next to all of them; and else not. (This
// asks your own rule about two workers, which was right.)
static void check_several(void) {
    Situation at;
    for (int i = 0; situation(i, &at); i++) {
        long mine = at.steps[at.who];
        bool came = yours_begins(&at);
        int who = 0;
        while (who < at.n && begins_next_to(mine, at.steps[who], at.s)) who++;
        bool held_up = who < at.n;
        EXPECT(!came || !held_up,
               "one that is too far behind is enough: look at all of steps[], the first one and "
               "the last one, too; the slowest counts, not the mean and not a neighbour",
               "may_begin(), workers have made %s steps, the bound is %d: one that has made %ld "
               "may begin, expected that it may not, as worker %d is too far behind",
               steps_text(&at), at.s, mine, who);
        EXPECT(came || held_up,
               "how far the fastest is ahead does not matter to the others: `mine` is what counts, "
               "next to the slowest",
               "may_begin(), workers have made %s steps, the bound is %d%s: one that has made %ld "
               "may not begin, expected that it may: it may next to each of them alone",
               steps_text(&at), at.s, at.s == NO_BOUND ? " (none)" : "", mine);
    }
}

// ---- backup workers ----------------------------------------------------------------------------
//
// What becomes of a round's pushes, one after the other: T is taken, C completes the round, and for
// those that come later, d, its round has ended.

typedef struct Round {
    int W, backup;
    const char *pushes;
} Round;

static const Round rounds[] = {{2, 0, "TC"},    {2, 1, "Cd"},    {3, 0, "TTC"},   {3, 1, "TCd"},
                               {3, 2, "Cdd"},   {4, 0, "TTTC"},  {4, 1, "TTCd"},  {4, 2, "TCdd"},
                               {4, 3, "Cddd"},  {5, 0, "TTTTC"}, {5, 1, "TTTCd"}, {5, 2, "TTCdd"},
                               {5, 3, "TCddd"}, {5, 4, "Cdddd"}};
enum { NUM_ROUNDS = sizeof rounds / sizeof *rounds, MOST_UPDATES = 4 };

static const char *fate_name(PushFate fate) {
    return fate == PUSH_DROPPED     ? "PUSH_DROPPED"
           : fate == PUSH_TAKEN     ? "PUSH_TAKEN"
           : fate == PUSH_COMPLETES ? "PUSH_COMPLETES"
                                    : "none of the three";
}

static const char *hint_for_count(const Round *r, PushFate came, PushFate right) {
    if (came == PUSH_DROPPED && right == PUSH_COMPLETES)
        return "dropping the push that completes the round comes to this: it belongs to it; those "
               "that come after it are dropped";
    if (came == PUSH_DROPPED)
        return "a push of the present round, which is number `updates`, is in time (< or <=?)";

    int most = 2 * r->W, completes = 0, needed = (int)(strchr(r->pushes, 'C') - r->pushes) + 1;
    while (completes < most && fate_of_push(0, 0, completes, r->W, r->backup) != PUSH_COMPLETES)
        completes++;
    int made_of = completes + 1; // your update
    if (made_of > most)
        return "no push completes its round: then nobody ever goes on; which is the last that it "
               "needs?";
    if (made_of == needed)
        return right == PUSH_TAKEN ? "a push in time that the round still needs is taken"
                                   : "the last push that the round needs belongs to it, and "
                                     "completes it";
    if (made_of == r->W && r->backup > 0)
        return "waiting for all W comes to this: the first W - backup are enough, that is what the "
               "backup is for";
    if (made_of == needed + 1)
        return "one push too many comes to this: `taken` are there already, and this one is one "
               "more";
    if (made_of == r->backup)
        return "an update of `backup` pushes comes to this: so many are left out";
    if (made_of == 1)
        return "an update with each push comes to this: that is asynchronous; how many does a "
               "round need?";
    return "the number of pushes that an update is made of is wrong: how many have come, with this "
           "one (`taken` does not count it), and how many are needed?";
}

// Of pushes in time: NULL, if they are taken or complete the round as they should; else why not.
static const Round *miscounted(int *taken, long *step, PushFate *right) {
    for (int r = 0; r < NUM_ROUNDS; r++)
        for (*taken = 0; rounds[r].pushes[*taken] && rounds[r].pushes[*taken] != 'd'; ++*taken)
            for (*step = 0; *step < MOST_UPDATES; ++*step) {
                *right = rounds[r].pushes[*taken] == 'T' ? PUSH_TAKEN : PUSH_COMPLETES;
                if (fate_of_push(*step, *step, *taken, rounds[r].W, rounds[r].backup) != *right)
                    return &rounds[r];
            }
    return NULL;
}

static void check_counts(void) {
    int taken;
    long step;
    PushFate right;
    const Round *r = miscounted(&taken, &step, &right);
    if (!r) return;
    PushFate came = fate_of_push(step, step, taken, r->W, r->backup);
    EXPECT(false, hint_for_count(r, came, right),
           "fate_of_push(), %d workers, %d of them backup, %ld updates made, %d pushes of the "
           "present round taken, a push of round %ld arrives: %s, expected %s",
           r->W, r->backup, step, taken, step, fate_name(came), fate_name(right));
}

static const char *hint_for_late(int late, PushFate came, const Round *r) {
    if (late == 0)
        return "the first push of the present round, which is number `updates`, is in time (< or "
               "<=?)";
    if (late == 1 && fate_of_push(0, 2, 0, r->W, r->backup) == PUSH_DROPPED)
        return "dropping only what is two rounds late comes to this: `updates` rounds have ended, "
               "so the present one is number `updates`, and one before it is late";
    if (came == PUSH_COMPLETES || came == PUSH_TAKEN)
        return "a late push that is taken comes to this: its round has ended, and what it belongs "
               "to has been updated without it; drop it";
    return "it is PUSH_DROPPED, PUSH_TAKEN or PUSH_COMPLETES";
}

// Whether pushes that come so many rounds late are dropped, and those of the present one not; if
// not, what came in which round.
static const Round *wrongly_dropped(int *late, int *taken, PushFate *came) {
    for (int r = 0; r < NUM_ROUNDS; r++)
        for (*taken = 0; rounds[r].pushes[*taken] && rounds[r].pushes[*taken] != 'd'; ++*taken)
            for (*late = 0; *late < MOST_UPDATES; ++*late) {
                *came = fate_of_push(MOST_UPDATES - 1 - *late, MOST_UPDATES - 1, *taken,
                                     rounds[r].W, rounds[r].backup);
                if ((*came == PUSH_DROPPED) != (*late > 0)) return &rounds[r];
            }
    return NULL;
}

static void check_drops(void) {
    int late, taken;
    PushFate came;
    const Round *r = wrongly_dropped(&late, &taken, &came);
    if (!r) return;
    EXPECT(false, hint_for_late(late, came, r),
           "fate_of_push(), %d workers, %d of them backup, %d updates made, %d pushes of the "
           "present round taken, a push of round %d arrives, which has %s: %s, expected %s",
           r->W, r->backup, MOST_UPDATES - 1, taken, MOST_UPDATES - 1 - late,
           late > 0 ? "ended" : "not ended", fate_name(came),
           late > 0 ? "PUSH_DROPPED" : "that it is not dropped");
}

// A schedule asks both questions. Who has one of them wrong is not asked for one, and keeps the
// points of the other.
static bool fates_are_right(void) {
    int late, taken;
    long step;
    PushFate fate;
    return !miscounted(&taken, &step, &fate) && !wrongly_dropped(&late, &taken, &fate);
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

enum { MOST_POINTS = 6, MOST_SIGNS = 4 };

// A time that tells which mistake was made.
typedef struct Sign {
    double time;
    const char *hint;
} Sign;

typedef struct Curve {
    const char *name;
    int n;
    PsPoint points[MOST_POINTS]; // .time and .accuracy
    double goal, time;           // when it is there, found by hand
    Sign signs[MOST_SIGNS];      // the first without a hint ends them
} Curve;

#define AT(t, a)                                                                                   \
    { .time = (t), .accuracy = (a) }
#define POINT_AFTER                                                                                \
    "the time of the first point that is there comes to this: the curve was there before, on the " \
    "straight line from the point before it"
#define POINT_BEFORE                                                                               \
    "the time of the point before comes to this: it was not there yet; the straight line to the "  \
    "next point says when"
#define HALFWAY                                                                                    \
    "halfway between two points comes to this: how far the goal is between their accuracies says " \
    "how far the time is between theirs"
#define TURNED_ROUND                                                                               \
    "the straight line the wrong way round comes to this: begin at the point before the goal, "    \
    "and go as far as the goal is above it"
#define STAYS                                                                                      \
    "the time from which on it stays there, or comes back, comes to this: the first time counts, " \
    "whatever follows; leave the loop there"
#define ABOVE         "until it is above the goal comes to this: at the goal is enough (> or >=?)"
#define NOT_THE_FIRST "beginning with the second point comes to this: the first one may be there"
#define NEVER_IS_BEST "0 or -1 for never comes to this: that would be the best of all; INFINITY"

// The first NUM_RISING are at the goal between two points, the others at a point, or never: so
// these need no straight line.
// clang-format off
static const Curve curves[] = {
    // From 0.25 at time 3 to 0.75 at time 7: the goal is 1/4 of the way up, and 1/4 of 4 is 1.
    {"rising", 4, {AT(1, 0.125), AT(3, 0.25), AT(7, 0.75), AT(8, 0.875)}, 0.375, 4,
     {{7, POINT_AFTER}, {3, POINT_BEFORE}, {5, HALFWAY}, {6, TURNED_ROUND}}},
    // From 0.5 at time 4 to 1 at time 12: half of the way, and half of 8 is 4.
    {"rising in the last piece", 3, {AT(2, 0.25), AT(4, 0.5), AT(12, 1)}, 0.75, 8,
     {{12, POINT_AFTER}, {4, POINT_BEFORE}}},
    // From 0.375 at time 10 to 0.875 at time 30: 3/4 of the way, and 3/4 of 20 is 15.
    {"rising less and less", 4, {AT(10, 0.375), AT(30, 0.875), AT(40, 0.9), AT(50, 0.9)}, 0.75, 25,
     {{30, POINT_AFTER}, {10, POINT_BEFORE}, {20, HALFWAY}, {15, TURNED_ROUND}}},
    // At time 2 for the first time. It comes back between 5 and 6, halfway.
    {"dipping", 6, {AT(1, 0), AT(2, 0.5), AT(4, 0.625), AT(5, 0.25), AT(6, 0.75), AT(7, 1)}, 0.5, 2,
     {{5.5, STAYS}, {6, STAYS}, {4, ABOVE}}},
    {"dipping at the end", 4, {AT(1, 0.25), AT(3, 0.5), AT(4, 0.375), AT(6, 0.25)}, 0.5, 3,
     {{INFINITY, ABOVE " (Or it must stay there? The first time counts.)"}}},
    {"there at a point", 4, {AT(1, 0.25), AT(2, 0.5), AT(3, 0.5), AT(4, 0.75)}, 0.5, 2,
     {{3, ABOVE}, {4, ABOVE}}},
    {"there at the last point", 3, {AT(1, 0.125), AT(2, 0.25), AT(4, 0.5)}, 0.5, 4,
     {{INFINITY, "the last point counts, too: n of them"}}},
    // A line from 0 at time 0 to 0.625 at 3 would be there at 2.4, one back from the second at 2.
    {"there from the first point on", 3, {AT(3, 0.625), AT(4, 0.75), AT(5, 0.875)}, 0.5, 3,
     {{2.4, "a straight line from time 0 and accuracy 0 to the first point comes to this, or "
            "points[i - 1] read for i = 0: nothing is known before it, so take its time"},
      {2, NOT_THE_FIRST},
      {4, NOT_THE_FIRST},
      {0, "0, where the first point is there already, comes to this: take its time"}}},
    {"of one point", 1, {AT(3, 0.5)}, 0.5, 3,
     {{INFINITY, NOT_THE_FIRST},
      {0, "0, where the first point is there already, comes to this: take its time"}}},
    {"that never gets there", 3, {AT(1, 0.125), AT(2, 0.25), AT(3, 0.375)}, 0.5, INFINITY,
     {{0, NEVER_IS_BEST},
      {-1, NEVER_IS_BEST},
      {NAN, "NAN for never comes to this: that is neither more nor less than any other time; "
            "INFINITY is more"},
      {3, "the last time for never comes to this: it is not there yet; INFINITY"}}},
    {"without points", 0, {AT(7, 1)}, 0.5, INFINITY,
     {{7, "there are n points, and here there is none: that is never"}, {0, NEVER_IS_BEST}}},
};
// clang-format on
enum { NUM_RISING = 3, NUM_CURVES = sizeof curves / sizeof *curves };

static bool same_time(double a, double b) {
    if (isinf(a) || isinf(b)) return a == b;
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(b);
}

static const char *hint_for_time(const Curve *c, double came) {
    for (int i = 0; i < MOST_SIGNS && c->signs[i].hint; i++)
        if (same_time(came, c->signs[i].time)) return c->signs[i].hint;
    return "suspects: which two points (the first that is at the goal, and the one before it), the "
           "straight line between them, the first point, never (INFINITY); no usual mistake comes "
           "to this";
}

static void check_times(int first, int end) {
    for (int i = first; i < end; i++) {
        const Curve *c = &curves[i];
        double came = time_to(c->points, c->n, c->goal);
        EXPECT(same_time(came, c->time), hint_for_time(c, came),
               "time_to(), a curve %s, to an accuracy of %g: %.6g, expected %.6g", c->name, c->goal,
               came, c->time);
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
    check_two();
    check_several();
    check_in_schedules(with_bound, 4, (Rules){may_begin, fate_of_push});
}
static void check_counting(const Flags *flags) {
    (void)flags;
    check_counts();
    if (fates_are_right()) check_in_schedules(with_backup, 2, (Rules){may_begin, fate_of_push});
}
static void check_dropping(const Flags *flags) {
    (void)flags;
    check_drops();
    if (fates_are_right()) check_in_schedules(with_backup, 2, (Rules){may_begin, fate_of_push});
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
