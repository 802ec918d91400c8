// cases.c: your answers beside what the ranks are in, then your functions on 2 and 3 ranks.
#include "common/base/error.h"
#include "common/program/facts.h"
#include "../start_ranks.h"
#include "calls.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOUND = 1, FIRST_FUNCTION }; // those of the functions come in their order
const Part parts[] = {
    {"found: you know what each of 3 ranks is in, with the functions as they were found", 2},
    {"report(): all ranks come through, and rank 0 has the mean of their losses", 2},
    {"train_until(): all ranks make as many steps, until the mean loss is below the goal", 2},
    {"exchange(): each bucket is summed with itself, as soon as it and all before it are there", 2},
    {"train_epoch(): ranks with fewer rows make as many steps, and each row counts once", 2},
    {0}};

// ## One of the ranks

// What the functions get. All ranks have two minibatches of rows and one row more, but for the
// last, which has one less.
typedef struct Input {
    int step, batch;
    float w, goal, unit;
} Input;
static const Input as_ever = {.step = 0, .batch = 4, .w = 10, .goal = 2.5f, .unit = 1};
typedef struct Output {
    Training t;
    Buckets b;
    int returned;
} Output;

static Output start_of(const Input *in) {
    int is_last = dist_get_rank() == dist_get_world_size() - 1, most = 2 * in->batch + 1;
    return (Output){{in->w, in->step, most - 2 * is_last, most, -1}, {.unit = in->unit}, 0};
}

static Output run(int f, const Input *in, bool as_found) {
    Output out = start_of(in);
    before_function(f);
    if (f == REPORT) (as_found ? report_as_found : report)(&out.t);
    if (f == TRAIN_UNTIL)
        out.returned = (as_found ? train_until_as_found : train_until)(&out.t, in->goal);
    if (f == EXCHANGE) (as_found ? exchange_as_found : exchange)(&out.b);
    if (f == TRAIN_EPOCH) (as_found ? train_epoch_as_found : train_epoch)(&out.t, in->batch);
    after_function();
    return out;
}

static void run_as_found(int f) {
    int k = dist_get_world_size();
    Output out = run(f, &as_ever, true);
    for (int i = 0; i < NUM_BUCKETS && f == EXCHANGE; i++)
        printf("rank 0 has %g in bucket %d; the sum of all ranks' buckets %d is %d\n",
               (double)out.b.value[i], i, i, (1 << 4 * i) * k * (k + 1) / 2);
}

// What this rank has. (A name is used once by a rank: so it says which case it is of.)
static void record(int f, const Output *out, const char *of) {
    int part = FIRST_FUNCTION + f, rank = dist_get_rank();
    const char *name = function_names[f];
    if (f == REPORT && rank == 0)
        record_real(part, (double)out->t.mean_loss, 1e-6, "t->mean_loss of rank 0");
    if (f == TRAIN_UNTIL)
        record_int(part, out->returned, "steps that rank %d returned%s", rank, of);
    if (f == TRAIN_UNTIL || f == TRAIN_EPOCH) {
        record_int(part, out->t.step, "t->step of rank %d after %s()%s", rank, name, of);
        record_real(part, (double)out->t.w, 1e-6, "t->w of rank %d after %s()%s", rank, name, of);
    }
    if (f != EXCHANGE) return;
    record_floats(part, out->b.value, NUM_BUCKETS, 1e-6, "buckets 0, 1 and 2 of rank %d", rank);
    record_ints(part, out->b.sum_began, NUM_BUCKETS,
                "buckets that had arrived on rank %d when each sum began", rank);
}

static void begin(int f, const Input *in) {
    int k = dist_get_world_size();
    if (f == REPORT) begin_case("report(), %d ranks, after %d steps", k, in->step);
    if (f == TRAIN_UNTIL)
        begin_case("train_until(), %d ranks, goals %g and 50", k, (double)in->goal);
    if (f == EXCHANGE) begin_case("exchange(), %d ranks, unit %g", k, (double)in->unit);
    if (f == TRAIN_EPOCH) begin_case("train_epoch(), %d ranks, minibatches of %d", k, in->batch);
}

// A section is one case, so that one that is lost leaves the others what they are.
static void run_section(int f) {
    begin_section(f);
    int rank = dist_get_rank(), k = dist_get_world_size();
    Input in = {.step = f == REPORT ? (int)draw(1, 3) : 0};
    in.batch = (int)draw(3, 6);
    in.w = (float)draw(-99, 99);
    in.goal = (float)draw(0, 2) + 0.75f;
    in.unit = (float)draw(1, 9);
    if (rank == 0) begin(f, &in);
    Output out = run(f, &in, false), idle = out;
    in.goal = 50; // the mean loss is below it before the first step
    if (f == TRAIN_UNTIL) idle = run(f, &in, false);
    if (rank == 0)
        record_text(FIRST_FUNCTION + f, "all came through", "the %d ranks of %s()", k,
                    function_names[f]);
    for (int r = 0; r < k; r++) { // one after the other
        if (r == rank) record(f, &out, "");
        if (r == rank && f == TRAIN_UNTIL) record(f, &idle, ", goal 50");
        dist_barrier(NULL);
    }
}

static int function_named(const char *name) {
    int f = 0;
    while (f < NUM_FUNCTIONS && strcmp(function_names[f], name) != 0) f++;
    if (f == NUM_FUNCTIONS)
        die_usage("there are report, train_until, exchange and train_epoch",
                  "--case %s: there is no such function", name);
    return f;
}

int run_in_rank(const char *name) {
    char *rest;
    long number = strtol(name, &rest, 10);
    bool yours = strcmp(name, "yours") == 0, section = rest > name && !*rest;
    int first = yours ? 0 : section ? (int)number : function_named(*rest == '-' ? rest + 1 : rest);
    int end = yours || section ? NUM_FUNCTIONS : first + 1;
    dist_before_flags();
    devices_init(BACKEND_CPU, 1);
    double timeout = *rest == '-' ? (double)number : 3;
    dist_init_process_group((DistOptions){.timeout = timeout * patience_of_ranks(), .threads = 1});
    for (int f = first; f < end; f++)
        section ? run_section(f) : yours ? (void)run(f, &as_ever, false) : run_as_found(f);
    dist_destroy_process_group();
    devices_close();
    return EXIT_SUCCESS;
}

// ## Who starts them

static int ranks;
static Calls calls; // of the ranks that ran last
static void lost(int f, const char *said) {
    char *error = said_after(said, "error: a rank ");
    read_calls(said, &calls);
    char *all = error ? xprintf("a rank %s", error) : where_text(&calls, f, ranks);
    record_text(FIRST_FUNCTION + f, all, "the %d ranks of %s()", ranks, function_names[f]);
}

static void your_functions(void) {
    for (ranks = 2; ranks <= 3; ranks++) run_sections(ranks, 0, NUM_FUNCTIONS, 20, lost);
}

// Runs a function as it was found until nothing has moved for so many seconds, and looks what its
// ranks are in. (Of ranks that did not begin in time nothing is known.)
static void watch_as_found(int f, int seconds, Where seen[RANKS_WATCHED]) {
    static char said[SAID_BYTES];
    char *name = xprintf("%d-%s", seconds, function_names[f]);
    run_as_ranks(RANKS_WATCHED, name, said, sizeof said, seconds + 10);
    read_calls(said, &calls);
    for (int r = 0; r < RANKS_WATCHED; r++)
        seen[r] = last_call(&calls, f, r) ? where_at_last(&calls, f, r) : UNKNOWN;
}

// All four at once, as most of their time they wait: those that differ from your answers once more,
// with more patience. (On a very busy machine ranks are late.)
static void watch_all(Where seen[NUM_FUNCTIONS][RANKS_WATCHED]) {
    for (int patience = 1; patience <= 4; patience *= 4) {
        for (int f = 0; f < NUM_FUNCTIONS; f++) {
            if (memcmp(seen[f], found[f], sizeof seen[f]) == 0 || fork() > 0) continue;
            watch_as_found(f, patience, seen[f]);
            _exit(EXIT_SUCCESS);
        }
        while (wait(NULL) > 0) continue;
    }
}

// The answers themselves are told as a number, so that the judge's message does not give them away.
static void your_answers(void) {
    static const char *const words[] = {"unknown", "another one", "as seen"};
    Where(*seen)[RANKS_WATCHED] =
        mmap(NULL, sizeof found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    watch_all(seen);
    for (int f = 0; f < NUM_FUNCTIONS; f++) {
        const char *word[RANKS_WATCHED];
        int number = (int)draw(100, 999);
        for (int r = 0; r < RANKS_WATCHED; r++) {
            word[r] = words[found[f][r] == UNKNOWN ? 0 : found[f][r] == seen[f][r] ? 2 : 1];
            number = (number * 31 + (int)found[f][r] * 7) % 9973;
        }
        char *beside = xprintf("%s, %s, %s", word[0], word[1], word[2]);
        begin_case("%s() as it was found, %d ranks", function_names[f], RANKS_WATCHED);
        record_text(FOUND, beside, "your answers for ranks 0, 1 and 2");
        record_int(FOUND, number, "a number that is made of them");
    }
}

const Group groups[] = {{"answers", your_answers, 300}, {"functions", your_functions, 300}, {0}};
