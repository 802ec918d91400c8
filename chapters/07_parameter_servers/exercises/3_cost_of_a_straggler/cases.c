// cases.c: who may begin a step, and what becomes of pushes, asked in many situations; and times
// read from curves. Accuracies are whole 64ths, so that no rounding decides when a curve is at the
// goal.
#include "common/program/facts.h"
#include "your_part.h"

#include <stdio.h>

enum { BOUND = 1, COUNTED, DROPPED, BETWEEN, FIRST };
const Part parts[] = {
    {"may_begin(): a worker waits when it is more than the bound ahead of the slowest, else not",
     3},
    {"fate_of_push(): the last push that a round needs completes it, those before are taken", 2},
    {"fate_of_push(): pushes of rounds that have ended are dropped, and no others", 1},
    {"time_to(): between two points it is on their straight line", 2},
    {"time_to(): the first time counts, also if the curve dips, or is there at once, or never", 2},
    {0}};

// ---- bounded staleness -------------------------------------------------------------------------

enum { MOST_WORKERS_HERE = 5 };

static void ask(int who, const long steps[], int n, int staleness) {
    char text[96];
    size_t at = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%ld", i > 0 ? ", " : "", steps[i]);
    begin_case("may_begin(%ld, {%s}, %d, %d)", steps[who], text, n, staleness);
    record_text(BOUND, may_begin(steps[who], steps, n, staleness) ? "true" : "false", "returned");
}

static void two_workers(void) {
    static const int bounds[] = {0, 1, 2, 3, NO_BOUND};
    for (int b = 0; b < 5; b++)
        for (int ahead = -2; ahead <= 4; ahead++) {
            int who = (int)draw(0, 1);
            long steps[2];
            steps[1 - who] = draw(2, 99);
            steps[who] = steps[1 - who] + ahead;
            ask(who, steps, 2, bounds[b]);
        }
}

// The slowest is the first, the last, or in between; and others are far ahead.
static void several_workers(void) {
    for (int c = 0; c < 60; c++) {
        int n = c % 3 + 3, who = (int)draw(0, n - 1), slowest = (int)draw(0, n - 1);
        long steps[MOST_WORKERS_HERE], least = draw(0, 99);
        int bound = (int)draw(0, 3);
        for (int i = 0; i < n; i++) steps[i] = least + draw(1, 9);
        steps[slowest] = least;
        if (who != slowest) steps[who] = least + bound + draw(0, 1);
        ask(who, steps, n, bound);
    }
}

// ---- backup workers ----------------------------------------------------------------------------

static const char *name_of(PushFate fate) {
    return fate == PUSH_DROPPED     ? "PUSH_DROPPED"
           : fate == PUSH_TAKEN     ? "PUSH_TAKEN"
           : fate == PUSH_COMPLETES ? "PUSH_COMPLETES"
                                    : "none of the three";
}

// A push of the present round, and one whose round ended `late` rounds ago.
static void push(long updates, int taken, int W, int backup) {
    int late = (int)draw(1, 2);
    PushFate fate = fate_of_push(updates, updates, taken, W, backup);
    begin_case("fate_of_push(), %d workers, %d of them backup, %ld updates made, %d pushes taken",
               W, backup, updates, taken);
    record_text(COUNTED, name_of(fate), "a push of round %ld", updates);
    record_text(DROPPED, fate == PUSH_DROPPED ? "dropped" : "kept", "a push in time is");
    fate = fate_of_push(updates - late, updates, taken, W, backup);
    record_text(DROPPED, fate == PUSH_DROPPED ? "dropped" : "kept", "a push of round %ld is",
                updates - late);
}

static void pushes(void) {
    for (int W = 2; W <= 6; W++)
        for (int backup = 0; backup < W; backup++) {
            long updates = draw(2, 99);
            for (int taken = 0; taken < W - backup; taken++) push(updates, taken, W, backup);
        }
}

// ---- times -------------------------------------------------------------------------------------

enum { MOST_POINTS = 8 };

// A curve through these accuracies, in 64ths, at times that are drawn.
static void read_time(int part, const char *what, const int accuracies[], int n, int goal) {
    PsPoint points[MOST_POINTS] = {{0}};
    char text[128] = "none";
    size_t at = 0;
    double time = (double)draw(2, 9);
    for (int p = 0; p < n; p++, time += (double)draw(2, 9)) {
        points[p] = (PsPoint){.time = time, .accuracy = accuracies[p] / 64.0};
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.4g at %g", p > 0 ? ", " : "",
                               points[p].accuracy, time);
    }
    if (n == 0) points[0] = (PsPoint){.time = time, .accuracy = 1}; // is none of the curve
    begin_case("time_to(), goal %.4g, a curve %s: %s", goal / 64.0, what, text);
    record_real(part, time_to(points, n, goal / 64.0), 1e-9, "returned");
}
#define READ_TIME(part, what, goal, ...)                                                           \
    read_time(part, what, (const int[]){__VA_ARGS__},                                              \
              (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), goal)

// The goal is a quarter of the way between two points, or three quarters.
static void between(void) {
    for (int c = 0; c < 6; c++) {
        int low = (int)draw(4, 20), high = low + 4 * (int)draw(2, 6);
        int goal = c % 2 ? low + (high - low) / 4 : high - (high - low) / 4;
        if (c < 2) READ_TIME(BETWEEN, "rising in its last piece", goal, low - 2, low, high);
        if (c >= 2) READ_TIME(BETWEEN, "rising", goal, low - 2, low, high, high + 1, high + 3);
    }
}

static void first_time(void) {
    for (int c = 0; c < 2; c++) {
        int goal = (int)draw(20, 40), d = (int)draw(2, 9);
        read_time(FIRST, "without points", NULL, 0, goal);
        READ_TIME(FIRST, "of one point", goal, goal + d);
        READ_TIME(FIRST, "that is there from the first point on", goal, goal + 1, goal + d + 1);
        READ_TIME(FIRST, "that never gets there", goal, goal - 9, goal - d, goal - 1);
        READ_TIME(FIRST, "that is there at a point", goal, goal - d, goal, goal, goal + d);
        READ_TIME(FIRST, "that is there at its last point", goal, goal - 2 * d, goal - d, goal);
        READ_TIME(FIRST, "that dips", goal, goal - d, goal, goal + 4, goal - d, goal + d, goal + 9);
        READ_TIME(FIRST, "that dips at its end", goal, goal - d, goal, goal - 1, goal - d);
    }
}

const Group groups[] = {{"may_begin(), two workers", two_workers, 5},
                        {"may_begin(), several workers", several_workers, 5},
                        {"fate_of_push()", pushes, 5},
                        {"time_to(), between points", between, 5},
                        {"time_to(), the first time", first_time, 5},
                        {0}};
