// choices.c: see behind.h.
#include "behind.h"

#include "common/base/error.h"
#include "common/program/program.h"

#include <stdio.h>

Choices choices = {.staleness = -1, .backup = -1};
const Flag choice_flags[] = {
    {"workers", FLAG_INTEGER, &choices.workers, "W", .help = "workers", .least = 1, .most = 32,
     .standard = "4"},
    {"servers", FLAG_INTEGER, &choices.servers, "S", .help = "servers", .least = 1, .most = 32,
     .standard = "2"},
    {"staleness", FLAG_INTEGER, &choices.staleness, "S",
     .help = "only this way: at most S steps ahead; 0: synchronous, inf: asynchronous",
     .most = 1 << 30, .unbounded = true, .otherwise = "compare several"},
    {"backup", FLAG_INTEGER, &choices.backup, "B", .help = "only this way: drop the last B pushes",
     .most = 31, .otherwise = "compare several"},
    {"slow", FLAG_TEXT, &choices.slow, "W=X", .help = "worker W takes X times as long",
     .otherwise = "the last one takes 4 times as long"},
    {"staleness-lr", FLAG_ON, &choices.staleness_lr,
     .help = "a push that missed T moves 1/T as far"},
    {"schedule", FLAG_ON, &choices.schedule, .help = "only model who waits for whom (CSV and SVG)"},
    {0},
};

void read_slow(double slow[]) {
    int worker = choices.workers - 1, end = 0;
    double times = worker > 0 ? 4 : 1;
    if (choices.slow &&
        (sscanf(choices.slow, "%d=%lf%n", &worker, &times, &end) != 2 || choices.slow[end]))
        die_usage("WORKER=TIMES, as --slow 3=4", "--slow %s: not two numbers", choices.slow);
    if (worker < 0 || worker >= choices.workers || !(times >= 1 && times <= 1e6))
        die_usage("workers are numbered from 0, and 1 is as fast as the others",
                  "--slow %s: no such worker, or no such pace", choices.slow);
    for (int w = 0; w < choices.workers; w++) slow[w] = w == worker ? times : 1;
}

bool one_way(void) { return choices.staleness >= 0 || choices.backup >= 0; }

Discipline chosen_discipline(void) {
    if (choices.backup >= 0) return (Discipline){0, choices.backup};
    return (Discipline){choices.staleness < 0 ? NO_BOUND : choices.staleness, 0};
}

void check_choices(const Flags *flags) {
    const Choices *c = &choices;
    if (flags->backend == BACKEND_MODEL && one_way() && !c->schedule)
        die_usage("leave one of the two out", "--backend model has no values to train with");
    if (c->staleness >= 0 && c->backup >= 0)
        die_usage("give one of the two: backup workers are a form of synchronous training",
                  "--staleness and --backup");
    if (c->backup >= c->workers)
        die_usage("some workers must be left", "--backup %d of %d workers", c->backup, c->workers);
    if (c->staleness_lr && in_rounds(chosen_discipline()))
        die_usage("--staleness 1 or more, or inf",
                  "--staleness-lr: nothing is stale in synchronous training");
    if (flags->batch_size < c->workers || flags->batch_size > flags->train_size)
        die_usage("each worker has at least one row, and all of them fewer than there are images",
                  "--batch-size %d for %d workers and %d images", flags->batch_size, c->workers,
                  flags->train_size);
}

void name_outputs(void) {
    book_outputs("%s", choices.schedule ? "_schedule.csv _schedule.svg"
                       : one_way()
                           ? ""
                           : "_exchange.csv _exchange.png _disciplines.csv _disciplines.png "
                             "_slow_worker.png _slow_worker.svg _bounds.png _bounds.svg");
}
