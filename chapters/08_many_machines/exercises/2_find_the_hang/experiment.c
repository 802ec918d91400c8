// experiment.c: who is where: the collectives of three ranks, one after the other, in each function
// as it was found and in yours.
#include "common/base/error.h"
#include "common/program/exercise.h"
#include "common/program/predict.h"
#include "common/program/say.h"
#include "../start_ranks.h"
#include "calls.h"
#include "your_part.h"

#include <stdlib.h>
#include <string.h>

typedef struct Run {
    Calls calls;
    char *watch; // what it said; NULL: nothing
} Run;

// ## As it was found, and yours

// Whether each rank is in function f, or has been; in any of them: f is -1. (Where ranks start too
// slowly, the watch ends them before.)
static bool all_began(const Calls *calls, int f) {
    for (int rank = 0; f >= 0 && rank < RANKS_WATCHED; rank++)
        if (!last_call(calls, f, rank)) return false;
    return calls->n > 0;
}

// Function f as it was found; all of yours: f is -1.
static void run(int f, Run *r) {
    const double DEADLINE = 60;
    static const int patience[] = {3, 6, 12}; // seconds until the watch speaks
    const int TRIES = sizeof patience / sizeof *patience;
    char *said = xmalloc(SAID_BYTES);
    int status = 0, tries = 0;
    do {
        char *name =
            f < 0 ? xstrdup("yours") : xprintf("%d-%s", patience[tries], function_names[f]);
        status = run_as_ranks(RANKS_WATCHED, name, said, SAID_BYTES, DEADLINE);
        read_calls(said, &r->calls);
        free(name);
    } while (!all_began(&r->calls, f) && ++tries < TRIES);
    r->watch = said_after(said, "error: rank ");
    if (tries == TRIES)
        die("is this machine very busy? Then try again",
            "%s ended with status %d, before all ranks were in it",
            f < 0 ? "your part" : function_names[f], status);
    for (int rank = 0; f >= 0 && rank < RANKS_WATCHED; rank++)
        CHECK(where_at_last(&r->calls, f, rank) == found[f][rank],
              "ranks are where they were in the check");
    free(said);
}

static int number_of_calls(const Run *r, int f, int rank) {
    const Call *last = last_call(&r->calls, f, rank);
    return last ? last->number + 1 : 0;
}

// "1, 2 and 3"
static char *numbers_text(const Run *r, int f) {
    return xprintf("%d, %d and %d", number_of_calls(r, f, 0), number_of_calls(r, f, 1),
                   number_of_calls(r, f, 2));
}

static void show(int f, const Run *as_found, const Run *yours) {
    char *where = where_text(&as_found->calls, f, RANKS_WATCHED);
    char *before = numbers_text(as_found, f), *after = numbers_text(yours, f);
    say("\n%s(), %d ranks", function_names[f], RANKS_WATCHED);
    if (as_found->watch)
        say("  As found: %s. The watch: \"rank %s\".", where, as_found->watch);
    else
        say("  As found: nobody waits in vain, and no watch says anything.");
    say("  Collectives of the three: %s as found, %s in yours.", before, after);
    free(where);
    free(before);
    free(after);
}

// ## Figures: a row for each collective of each rank

static void write_calls(FILE *csv, const char *version, const Calls *calls, int f) {
    for (int i = 0; i < calls->n; i++) {
        const Call *c = &calls->list[i];
        if (c->function == f)
            fprintf(csv, "%s,%s,%d,%d,%s,%s,%d\n", function_names[f], version, c->rank, c->number,
                    where_names[c->what], c->why, c->ended);
    }
}

static void experiment(const Flags *flags, FILE *csv) {
    static Run as_found[NUM_FUNCTIONS], yours;
    int hang = 0;
    (void)flags;
    say("Question: four functions do not make the same collectives in the same order on all ranks. "
        "What does one see?");
    Prediction expected = predict_first("How many of the four hang, with 3 ranks?");
    for (int f = 0; f < NUM_FUNCTIONS; f++) run(f, &as_found[f]);
    run(-1, &yours);
    fprintf(csv, "function,version,rank,number,collective,why,ended\n");
    for (int f = 0; f < NUM_FUNCTIONS; f++) {
        show(f, &as_found[f], &yours);
        hang += as_found[f].watch != NULL;
        write_calls(csv, "as found", &as_found[f].calls, f);
        write_calls(csv, "yours", &yours.calls, f);
        free(as_found[f].watch);
    }
    predict_compare(expected, hang, "");
    say("In the picture each column is one collective: where its colours, or its words, differ, "
        "ranks do not mean the same.");
}

int main(int argc, char *argv[]) {
    const char *name = case_of(argc, argv);
    if (name) return run_in_rank(name);
    return exercise_main(argc, argv,
                         &(Exercise){.about = "Exercise 2: find the hang.",
                                     .flags = "-machine",
                                     .experiment = experiment,
                                     .plot = "exercise_hangs.gp"});
}
