// calls.c: see calls.h.
#include "calls.h"

#include "common/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const where_names[] = {"UNKNOWN", "NOWHERE", "all_reduce", "broadcast", "barrier"};

static int number_in(const char *const names[], int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

const Call *last_call(const Calls *calls, int function, int rank) {
    for (int i = calls->n - 1; i >= 0; i--)
        if (calls->list[i].function == function && calls->list[i].rank == rank)
            return &calls->list[i];
    return NULL;
}

static void add_call(Calls *calls, Call call) {
    const Call *before = last_call(calls, call.function, call.rank);
    call.number = before ? before->number + 1 : 0;
    if (calls->n < MOST_CALLS) calls->list[calls->n++] = call;
}

static void read_line(const char *line, Calls *calls) {
    char verb[16], what[16], function[16];
    Call call = {0};
    if (sscanf(line, "at %*f s: rank %d %15s %15s (%23[^)]) in %15s", &call.rank, verb, what,
               call.why, function) != 5)
        return;
    call.function = number_in(function_names, NUM_FUNCTIONS, function);
    int where = number_in(where_names, BARRIER + 1, what);
    if (call.function < 0 || where < 0) return;
    call.what = (Where)where;
    if (strcmp(verb, "begins") == 0) {
        add_call(calls, call);
        return;
    }
    Call *last = (Call *)last_call(calls, call.function, call.rank);
    if (last) last->ended = true;
}

void read_calls(const char *said, Calls *calls) {
    calls->n = 0;
    for (const char *line = said; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        read_line(line, calls);
    }
}

Where where_at_last(const Calls *calls, int function, int rank) {
    const Call *last = last_call(calls, function, rank);
    return !last || last->ended ? NOWHERE : last->what;
}

char *where_text(const Calls *calls, int function, int k) {
    char *text = xstrdup("");
    for (int r = 0; r < k; r++) {
        const Call *last = last_call(calls, function, r);
        char *longer = last && !last->ended
                           ? xprintf("%s%srank %d is in %s (%s)", text, r > 0 ? ", " : "", r,
                                     where_names[last->what], last->why)
                           : xprintf("%s%srank %d is in no collective", text, r > 0 ? ", " : "", r);
        free(text);
        text = longer;
    }
    return text;
}
