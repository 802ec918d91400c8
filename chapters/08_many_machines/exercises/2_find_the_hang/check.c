// check.c: your answers must be what happens, and your functions must come through, with the right
// results, on 2, 3 and 4 ranks.
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "../start_ranks.h"
#include "calls.h"
#include "your_part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What all ranks say when a function is right.
static const char ALL_ARE_RIGHT[] = "all functions are right";

// ## One of the ranks

static int rank, k;

static void begin_rank(double timeout) {
    dist_before_flags();
    devices_init(BACKEND_CPU, 1);
    dist_init_process_group((DistOptions){.timeout = timeout, .threads = 1});
    rank = dist_get_rank();
    k = dist_get_world_size();
}

static int end_rank(void) {
    dist_destroy_process_group();
    devices_close();
    return EXIT_SUCCESS;
}

// All ranks have two minibatches of rows and one row more, but for the last, which has one less.
enum { BATCH = 4 };
static int rows_of(int r) { return 2 * BATCH + (r < k - 1 ? 1 : -1); }
static Training training(void) {
    return (Training){.w = 10, .rows = rows_of(rank), .most_rows = rows_of(0), .mean_loss = -1};
}

static const float GOAL = 2.5f;
static float loss_of(int r, int step) { return (float)(k + 3 * r - step); }
static float mean_loss(int step) {
    float sum = 0;
    for (int r = 0; r < k; r++) sum += loss_of(r, step);
    return sum / (float)k;
}

// Of rows first .. first + n - 1 of all ranks, as far as they have them.
static float gradient_of_all(int first, int n) {
    float sum = 0;
    for (int r = 0; r < k; r++)
        for (int i = first; i < first + n && i < rows_of(r); i++) sum += (float)(1 + r + i % 3);
    return sum;
}

static void check_report(void) {
    Training t = training();
    t.step = 2;
    report(&t);
    after_function();
    if (rank > 0) return;
    float mine = loss_of(0, t.step), mean = mean_loss(t.step);
    EXPECT(t.mean_loss == mean,
           t.mean_loss == mine || t.mean_loss == mine / (float)k
               ? "that is rank 0's own loss: all ranks have to give theirs"
           : t.mean_loss == mean * (float)k ? "that is the sum: divide it by the number of ranks"
                                            : "rank 0 keeps the mean in t->mean_loss",
           "report(), %d ranks: the mean loss in step %d is %g, expected %g", k, t.step,
           (double)t.mean_loss, (double)mean);
}

// Steps until a loss that begins with this is below so much.
static int steps_from(float loss, float goal) {
    int steps = 0;
    while (loss - (float)steps >= goal) steps++;
    return steps;
}

static const char *hint_for_steps(int steps) {
    if (steps == steps_from(mean_loss(0), GOAL / (float)k))
        return "the sum of all losses is compared: take the mean";
    if (steps == steps_from(loss_of(0, 0), GOAL))
        return "rank 0's loss decides for all: it should be the mean of all ranks' losses";
    if (steps == steps_from(loss_of(k - 1, 0), GOAL))
        return "it goes on until the last rank is below the goal: the mean of all should be";
    if (steps == steps_from(mean_loss(0), GOAL) + 1)
        return "one step too many: when is the mean computed, before the step or after it?";
    return "t->step counts the steps; no step more is made once the mean of all ranks' losses is "
           "below the goal";
}

static void check_train_until(void) {
    Training t = training();
    int steps = train_until(&t, GOAL), expected = steps_from(mean_loss(0), GOAL);
    after_function();
    float w = 10 + (float)expected * gradient_of_all(0, rows_of(0));
    EXPECT(steps == expected && t.step == expected, hint_for_steps(steps),
           "train_until(), %d ranks: rank %d made %d steps (t->step: %d), expected %d", k, rank,
           steps, t.step, expected);
    EXPECT(t.w == w, "in each step all ranks add the sum of all ranks' gradients",
           "train_until(), %d ranks: rank %d has the parameter %g, expected %g", k, rank,
           (double)t.w, (double)w);
}

// From where the mean is below the goal before the first step. (Not for the picture.)
static void check_nothing_to_do(void) {
    Training t = training();
    int steps = train_until(&t, mean_loss(0) + 1);
    after_function();
    EXPECT(steps == 0 && t.step == 0 && t.w == 10,
           "the mean may be below the goal before the first step: look at it then, too",
           "train_until(), %d ranks, from a mean loss below the goal: rank %d made %d steps, "
           "expected none",
           k, rank, t.step);
}

static int first_possible(int bucket) { return bucket == 0 && rank % 2 == 1 ? 2 : bucket + 1; }

static const char *hint_for_bucket(const Buckets *b, int i) {
    float each = (float)(1 << 4 * i);
    if (b->arrived < NUM_BUCKETS)
        return "next_arrived() waits for a bucket and says which one it is: until it has come, its "
               "numbers are 0, and it is called once for each";
    for (int j = 0; j < NUM_BUCKETS; j++)
        if (b->sum_began[j] > 0 && b->sum_began[j] < first_possible(j))
            return "a bucket that has not arrived was summed: next_arrived() says which ones have";
    if (b->sum_began[i] == 0)
        return "it was not summed: how many have been, when the last arrived?";
    if (b->value[i] < 16 * each && fmodf(b->value[i], each) == 0)
        return "numbers of this bucket alone, but not of all ranks: it had not arrived everywhere, "
               "and "
               "is 0 until then. next_arrived() says which ones have";
    return "numbers of different buckets were added: ranks sum them in different orders. The order "
           "of arrival is each rank's own; 0, 1, 2 is the same everywhere";
}

static void check_exchange(void) {
    Buckets b = {.arrived = 0};
    exchange(&b);
    after_function();
    for (int i = 0; i < NUM_BUCKETS; i++) {
        float expected = (float)((1 << 4 * i) * k * (k + 1) / 2);
        EXPECT(b.value[i] == expected, hint_for_bucket(&b, i),
               "exchange(), %d ranks: rank %d has %g in bucket %d, expected %g", k, rank,
               (double)b.value[i], i, (double)expected);
    }
    for (int i = 0; i < NUM_BUCKETS; i++)
        EXPECT(b.sum_began[i] == first_possible(i),
               "the sums are right, but nothing is computed under them: a bucket's sum begins as "
               "soon as it and all before it have arrived, not when all have",
               "exchange(), %d ranks: on rank %d the sum of bucket %d began when %d had arrived, "
               "expected %d",
               k, rank, i, b.sum_began[i], first_possible(i));
}

static void check_train_epoch(void) {
    Training t = training();
    train_epoch(&t, BATCH);
    after_function();
    int steps = (rows_of(0) + BATCH - 1) / BATCH;
    float w = 10 + gradient_of_all(0, rows_of(0)), left_out = 10 + gradient_of_all(0, 2 * BATCH);
    EXPECT(t.w == w,
           t.w == left_out
               ? "the last rows were left out: ranks that have none left add 0, the others theirs"
               : "each row of each rank counts once, on all ranks: is the last minibatch shorter?",
           "train_epoch(), %d ranks: rank %d has the parameter %g, expected %g", k, rank,
           (double)t.w, (double)w);
    EXPECT(t.step == steps, "all ranks make as many steps as the one with most rows",
           "train_epoch(), %d ranks: rank %d made %d steps, expected %d", k, rank, t.step, steps);
}

static int check_in_rank(int first, int end) {
    static void (*const checks[NUM_FUNCTIONS])(void) = {check_report, check_train_until,
                                                        check_exchange, check_train_epoch};
    const double TIMEOUT = 6;
    begin_rank(TIMEOUT);
    for (int f = first; f < end; f++) {
        before_function(f);
        checks[f]();
        if (f == TRAIN_UNTIL && end == first + 1) check_nothing_to_do();
    }
    printf("%s\n", ALL_ARE_RIGHT); // by rank 0
    return end_rank();
}

static int run_as_found(const char *function, double timeout) {
    Training t;
    Buckets b = {.arrived = 0};
    int f = 0;
    while (f < NUM_FUNCTIONS && strcmp(function_names[f], function) != 0) f++;
    if (f == NUM_FUNCTIONS)
        die_usage("there are report, train_until, exchange and train_epoch",
                  "--case %s: there is no such function", function);
    begin_rank(timeout);
    t = training();
    before_function(f);
    if (f == REPORT) report_as_found(&t);
    if (f == TRAIN_UNTIL) train_until_as_found(&t, GOAL);
    if (f == EXCHANGE) exchange_as_found(&b);
    if (f == TRAIN_EPOCH) train_epoch_as_found(&t, BATCH);
    after_function();
    if (f == EXCHANGE)
        for (int i = 0; i < NUM_BUCKETS; i++)
            printf("rank 0 has %g in bucket %d; the sum of all ranks' buckets %d is %d\n",
                   (double)b.value[i], i, i, (1 << 4 * i) * k * (k + 1) / 2);
    return end_rank();
}

static const char *const check_names[NUM_FUNCTIONS] = {"check-report", "check-train_until",
                                                       "check-exchange", "check-train_epoch"};

// (A number in front, "1-report", are the seconds after which the watch speaks.)
int run_in_rank(const char *name) {
    const double TIMEOUT = 3;
    char *rest;
    double timeout = strtod(name, &rest);
    if (strcmp(name, "check") == 0) return check_in_rank(0, NUM_FUNCTIONS);
    for (int f = 0; f < NUM_FUNCTIONS; f++)
        if (strcmp(name, check_names[f]) == 0) return check_in_rank(f, f + 1);
    return timeout > 0 && *rest == '-' ? run_as_found(rest + 1, timeout)
                                       : run_as_found(name, TIMEOUT);
}

// ## Your answers
//
// What is right is seen: the functions run as they were found, and ranks say what they are in.

static const char *hint_for_answer(Where answer, Where right) {
    if (right == NOWHERE)
        return "does it hang at all? Look at what it prints at the end, and compare the numbers";
    if (answer == NOWHERE)
        return "this rank is through with the function, or not; in either case it waits for "
               "somebody: what has it begun, and not ended?";
    return "what has this rank begun last, and not ended? The watch names one of the ranks, the "
           "lines above it name all of them";
}

static const char *answer_name(Where answer) {
    static const char *const names[] = {"UNKNOWN", "NOWHERE", "ALL_REDUCE", "BROADCAST", "BARRIER"};
    return answer <= BARRIER ? names[answer] : "none of the five";
}

// Runs a function as it was found, until nothing has moved for so many seconds. False: not all of
// its ranks have begun.
static bool watch_as_found(int f, int seconds, Where seen[RANKS_WATCHED]) {
    const double TO_START = 4; // `make grade` gives all of it 30
    static Calls calls;
    bool all_began = true;
    char *said = xmalloc(SAID_BYTES), *name = xprintf("%d-%s", seconds, function_names[f]);
    run_as_ranks(RANKS_WATCHED, name, said, SAID_BYTES, seconds + TO_START);
    read_calls(said, &calls);
    for (int r = 0; r < RANKS_WATCHED; r++) {
        seen[r] = where_at_last(&calls, f, r);
        all_began = all_began && last_call(&calls, f, r);
    }
    free(name);
    free(said);
    return all_began;
}

// A second is enough, but on a very busy machine: so if your answers differ, it looks once more,
// with more patience.
static void check_answers_for(int f) {
    static const int patience[] = {1, 4};
    Where seen[RANKS_WATCHED];
    bool began = false, same = false;
    for (int i = 0; i < 2 && !same; i++) {
        began = watch_as_found(f, patience[i], seen);
        same = began && memcmp(seen, found[f], sizeof seen) == 0;
    }
    EXPECT(began, "is this machine very busy? Then try again",
           "found, %s(): its ranks did not begin, expected to see what they are in",
           function_names[f]);
    for (int r = 0; r < RANKS_WATCHED; r++)
        EXPECT(found[f][r] == seen[r], hint_for_answer(found[f][r], seen[r]),
               "found, %s() with %d ranks: your answer for rank %d is %s, expected another one",
               function_names[f], RANKS_WATCHED, r, answer_name(found[f][r]));
}

static void check_answers(const Flags *flags) {
    (void)flags;
    for (int f = 0; f < NUM_FUNCTIONS; f++)
        for (int r = 0; r < RANKS_WATCHED; r++)
            EXPECT(found[f][r] > UNKNOWN && found[f][r] <= BARRIER,
                   "run it as it was found, with 3 ranks (see above): for each rank look for what "
                   "it begins last, and does not end",
                   "found, %s() with %d ranks: your answer for rank %d is %s, expected what it is "
                   "in",
                   function_names[f], RANKS_WATCHED, r, answer_name(found[f][r]));
    for (int f = 0; f < NUM_FUNCTIONS; f++) check_answers_for(f);
}

// ## Your functions

static const char *const hints_for_hangs[NUM_FUNCTIONS] = {
    "a collective inside `if (dist_get_rank() == 0)` is called by one rank alone: all call it, and "
    "rank 0 uses what comes",
    "each rank decides for itself when to stop: all must decide by the same number, and so make as "
    "many sums",
    "all ranks sum all three buckets, in one order: is one left out on some rank?",
    "a rank with fewer rows makes fewer sums: all make as many as the one with t->most_rows, and "
    "add 0 where no rows are left",
};

// What a rank says when a function begins: see program.c.
static const char BEGUN[] = "running: ";

// Seconds, of a function: `make grade` gives a part 30, and would not say who waits where.
static const double DEADLINE = 25;

static void explain(const char *said, int f, int ranks, int status) {
    static Calls calls;
    read_calls(said, &calls);
    char *watch = said_after(said, "error: rank ");
    EXPECT(!watch, hints_for_hangs[f],
           "%s(), %d ranks: nothing moves any more: %s; expected that all come through (the watch "
           "says: rank %s)",
           function_names[f], ranks, where_text(&calls, f, ranks), watch);
    EXPECT(status != STATUS_TOO_LATE || strstr(said, BEGUN),
           "is this machine very busy? Then try again",
           "%s(), %d ranks: not begun in time, expected that ranks find each other",
           function_names[f], ranks);
    EXPECT(status != STATUS_TOO_LATE, "does each loop end, on all ranks?",
           "%s(), %d ranks: not through in time, expected an end: %s", function_names[f], ranks,
           where_text(&calls, f, ranks));
    char *error = said_after(said, "error: ");
    EXPECT(false, "does a rank end the program, or write beyond an array?",
           "%s(), %d ranks: they ended with status %d, expected results: %s", function_names[f],
           ranks, status, error ? error : "without a message");
}

static void check_function(int f) {
    static const int numbers[] = {3, 2, 4}; // the first tells most
    double end = seconds_now() + DEADLINE;
    char *said = xmalloc(SAID_BYTES);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int status = run_ranks_that_begin(numbers[i], check_names[f], BEGUN, said, SAID_BYTES,
                                          end - seconds_now());
        if (status == EXIT_SUCCESS && strstr(said, ALL_ARE_RIGHT)) continue;
        pass_on_failure(said);
        explain(said, f, numbers[i], status);
    }
    free(said);
}

static void check_your_report(const Flags *flags) {
    (void)flags;
    check_function(REPORT);
}
static void check_your_train_until(const Flags *flags) {
    (void)flags;
    check_function(TRAIN_UNTIL);
}
static void check_your_exchange(const Flags *flags) {
    (void)flags;
    check_function(EXCHANGE);
}
static void check_your_train_epoch(const Flags *flags) {
    (void)flags;
    check_function(TRAIN_EPOCH);
}

const CheckPart check_parts[] = {
    {"found: you know what each of 3 ranks is in, with the functions as they were found", 2,
     check_answers},
    {"report(): all ranks come through, and rank 0 has the mean of their losses", 2,
     check_your_report},
    {"train_until(): all ranks make as many steps, until the mean loss is below the goal", 2,
     check_your_train_until},
    {"exchange(): each bucket is summed with itself, as soon as it and those before it are there",
     2, check_your_exchange},
    {"train_epoch(): ranks with fewer rows make as many steps, and each row counts once", 2,
     check_your_train_epoch},
    {0}};
