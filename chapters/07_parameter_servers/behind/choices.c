// choices.c: see behind.h.
#include "behind.h"

#include "common/base/error.h"

#include <stdio.h>

Choices choices = {.workers = 4, .servers = 2, .staleness = -1, .backup = -1};
const Flag choice_flags[] = {
    {"workers", FLAG_INTEGER, &choices.workers, "W", .help = "use W workers", .least = 1,
     .most = 32},
    {"servers", FLAG_INTEGER, &choices.servers, "S", .help = "use S parameter servers", .least = 1,
     .most = 32},
    {"staleness", FLAG_INTEGER, &choices.staleness, "S",
     .help = "train in one way only: no worker is more than S steps ahead; 0: synchronous, inf: "
             "asynchronous",
     .most = 1 << 30, .unbounded = true, .otherwise = "compare several"},
    {"backup", FLAG_INTEGER, &choices.backup, "B",
     .help = "train in one way only: each update takes all pushes except the last B", .most = 31,
     .otherwise = "compare several"},
    {"slow", FLAG_TEXT, &choices.slow, "W=X", .help = "worker W takes X times as long",
     .otherwise = "the last one takes 4 times as long"},
    {"staleness-lr", FLAG_ON, &choices.staleness_lr,
     .help = "a push that missed T > 1 others counts 1/T"},
    {"real", FLAG_ON, &choices.real, .help = "only train asynchronously, without a schedule"},
    {"schedule", FLAG_ON, &choices.schedule, .help = "only model who waits for whom (CSV and SVG)"},
    {0},
};

void read_slow(double slow[]) {
    int worker, end = 0;
    double times;
    for (int w = 0; w < choices.workers; w++) slow[w] = 1;
    if (!choices.slow) {
        slow[choices.workers - 1] = choices.workers > 1 ? 4 : 1;
        return;
    }
    if (sscanf(choices.slow, "%d=%lf%n", &worker, &times, &end) != 2 || choices.slow[end])
        die_usage("WORKER=TIMES, as --slow 3=4", "--slow %s: not two numbers", choices.slow);
    if (worker < 0 || worker >= choices.workers)
        die_usage("workers are numbered from 0", "--slow %s: no such worker", choices.slow);
    if (!(times >= 1 && times <= 1e6))
        die_usage("1 is as fast as the others, and a million the most",
                  "--slow %s: a worker cannot take %g times as long", choices.slow, times);
    slow[worker] = times;
}

bool one_way(void) { return choices.staleness >= 0 || choices.backup >= 0; }

Discipline chosen_discipline(void) {
    if (choices.backup >= 0) return (Discipline){0, choices.backup};
    return (Discipline){choices.staleness < 0 ? NO_BOUND : choices.staleness, 0};
}

static void check_real(const Flags *flags) {
    if (one_way() || choices.staleness_lr || choices.schedule)
        die_usage("leave it out: with --real, workers never wait, and all pushes count the same",
                  "--real with --staleness, --backup, --staleness-lr or --schedule");
    if (flags->backend == BACKEND_INLINE)
        die_usage("--backend cpu", "--real: with --backend inline workers take turns");
    if (choices.slow && num_gpus() > 0)
        die_usage("--backend cpu", "--real --slow: GPUs cannot be slowed down");
}

void check_choices(const Flags *flags) {
    if (flags->backend == BACKEND_MODEL && (one_way() || choices.real) && !choices.schedule)
        die_usage("leave one of the two out", "--backend model has no values to train with");
    if (choices.staleness >= 0 && choices.backup >= 0)
        die_usage("give one of the two: backup workers are a form of synchronous training",
                  "--staleness and --backup");
    if (choices.backup >= choices.workers)
        die_usage("some workers must be left", "--backup %d of %d workers", choices.backup,
                  choices.workers);
    if (choices.staleness_lr && one_way() && in_rounds(chosen_discipline()))
        die_usage("--staleness 1 or more, or inf",
                  "--staleness-lr: nothing is stale in synchronous training");
    if (choices.real) check_real(flags);
}
