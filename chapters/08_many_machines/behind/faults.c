// faults.c: ranks that go wrong on purpose; see behind.h.
#include "behind.h"

#include "common/base/error.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"", "kill", "stop", "exit", "memory", "nan"};

Fault fault_of(const char *text) {
    char name[16];
    Fault f = {0};
    int end = 0;
    if (!text) return f;
    if (sscanf(text, "%15[a-z]:%d@%ld%n", name, &f.rank, &f.step, &end) == 3 && !text[end])
        for (int kind = FAULT_KILL; kind <= FAULT_NAN; kind++)
            if (strcmp(name, names[kind]) == 0) f.kind = kind;
    if (!f.kind || f.rank < 0 || f.step < 1)
        die_usage("kill, stop, exit, memory or nan, a rank and its step, such as stop:2@5",
                  "--plant: not a possible value: '%s'", text);
    return f;
}

void check_fault(const Fault *fault, long steps) {
    int ranks = dist_get_world_size();
    if (fault->kind != NO_FAULT && (fault->rank >= ranks || fault->step > steps))
        die_usage("a rank from 0 on, and a step from 1 on",
                  "--plant %s:%d@%ld: there are %d ranks and %ld steps", names[fault->kind],
                  fault->rank, fault->step, ranks, steps);
}

void go_wrong(const Fault *fault, long step, Tensor *X) {
    if (fault->kind == NO_FAULT || fault->step != step || fault->rank != dist_get_rank()) return;
    if (fault->kind == FAULT_KILL) raise(SIGKILL);
    if (fault->kind == FAULT_STOP) raise(SIGSTOP);
    if (fault->kind == FAULT_EXIT) _exit(EXIT_SUCCESS);
    if (fault->kind == FAULT_MEMORY) xmalloc((size_t)1 << 60);
    if (fault->kind == FAULT_NAN) tensor_fill(X, NAN);
}
