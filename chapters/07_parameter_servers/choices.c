// choices.c: see choices.h.
#include "choices.h"

#include "common/base/error.h"

#include <math.h>
#include <stdio.h>

Choices choices = {.workers = 4, .servers = 2, .staleness = -1, .backup = -1};
const Flag choice_flags[] = {
    {"workers", FLAG_INTEGER, &choices.workers, "W", .help = "use W workers", .least = 1,
     .most = 32},
    {"servers", FLAG_INTEGER, &choices.servers, "S", .help = "use S parameter servers", .least = 1,
     .most = 32},
    {"staleness", FLAG_INTEGER, &choices.staleness, "S",
     .help = "train in one way only: nobody is more than S steps ahead; 0: synchronous, inf: "
             "asynchronous",
     .most = 1 << 30, .unbounded = true, .otherwise = "compare several"},
    {"backup", FLAG_INTEGER, &choices.backup, "B",
     .help = "train in one way only: each update takes all pushes but the last B", .most = 31,
     .otherwise = "compare several"},
    {"slow", FLAG_TEXT, &choices.slow, "W=X", .help = "worker W takes X times as long",
     .otherwise = "the last one takes 4 times"},
    {"dies", FLAG_TEXT, &choices.dies, "W=N",
     .help = "worker W dies in its step N, from 0; trains in one way, asynchronously if no other",
     .otherwise = "nobody"},
    {"schedule", FLAG_TEXT, &choices.schedule, "F",
     .help = "one way, asynchronously if no other: replay the events in F, or write a new F",
     .otherwise = "no"},
    {"staleness-lr", FLAG_ON, &choices.staleness_lr,
     .help = "a push that is T > 1 updates old counts 1/T"},
    {"real", FLAG_ON, &choices.real,
     .help = "train asynchronously for real: workers push when they are ready"},
    {0},
};

// "W=X": both numbers; the second one to the end of the text.
static bool read_pair(const char *text, int *worker, double *value) {
    int end = 0;
    return sscanf(text, "%d=%lf%n", worker, value, &end) == 2 && !text[end];
}

static void check_worker(const char *flag, const char *text, int worker, int W) {
    if (worker >= 0 && worker < W) return;
    die_usage(W > 1 ? xprintf("there are workers 0 to %d", W - 1) : "there is only worker 0",
              "--%s %s: no such worker", flag, text);
}

void read_slow(double slow[]) {
    int worker;
    double times;
    for (int w = 0; w < choices.workers; w++) slow[w] = 1;
    if (!choices.slow) {
        slow[choices.workers - 1] = choices.workers > 1 ? 4 : 1;
        return;
    }
    if (!read_pair(choices.slow, &worker, &times))
        die_usage("WORKER=TIMES, as --slow 3=4", "--slow %s: not two numbers", choices.slow);
    check_worker("slow", choices.slow, worker, choices.workers);
    if (!(times >= 1 && times <= 1e6))
        die_usage("1 is as fast as the others, and a million the most",
                  "--slow %s: a worker cannot take %g times as long", choices.slow, times);
    slow[worker] = times;
}

void read_dies(Pace *pace) {
    double step;
    if (!choices.dies) return;
    if (!read_pair(choices.dies, &pace->dies, &step))
        die_usage("WORKER=STEP, as --dies 2=100", "--dies %s: not two numbers", choices.dies);
    check_worker("dies", choices.dies, pace->dies, pace->W);
    if (!(step >= 0 && step <= 1e9) || step != floor(step))
        die_usage("steps are counted from 0", "--dies %s: no such step", choices.dies);
    pace->at = (int)step;
    pace->timeout = 0;
    for (int w = 0; w < pace->W; w++)
        pace->timeout =
            fmax(pace->timeout, 2 * pace->slow[w] * (pace->compute + 2 * pace->transfer));
}

bool one_way(void) {
    return choices.staleness >= 0 || choices.backup >= 0 || choices.schedule || choices.dies;
}

Discipline chosen_discipline(void) {
    if (choices.backup >= 0) return (Discipline){0, choices.backup};
    return (Discipline){choices.staleness < 0 ? NO_BOUND : choices.staleness, 0};
}

// What a run without a schedule has no use for.
static void check_real(void) {
    static const char leave_out[] = "leave it out: the workers of --real come when they like";
    if (choices.staleness >= 0) die_usage(leave_out, "--real has no use for --staleness");
    if (choices.backup >= 0) die_usage(leave_out, "--real has no use for --backup");
    if (choices.schedule) die_usage(leave_out, "--real has no use for --schedule");
    if (choices.staleness_lr)
        die_usage("leave it out: these servers apply all pushes as they are",
                  "--real has no use for --staleness-lr");
    if (choices.slow && num_gpus() > 0)
        die_usage("--backend cpu", "--real --slow: GPUs cannot be slowed down");
}

void check_choices(const Flags *flags) {
    if (flags->backend == BACKEND_MODEL && (one_way() || choices.real))
        die_usage("leave one of the two out", "--backend model has no values to train with");
    if (flags->backend == BACKEND_INLINE && choices.real)
        die_usage("--backend cpu", "--real: with --backend inline workers take turns");
    if (choices.staleness >= 0 && choices.backup >= 0)
        die_usage("give one of the two: backup workers are a form of synchronous training",
                  "--staleness and --backup");
    if (choices.backup >= choices.workers)
        die_usage("some workers must be left", "--backup %d of %d workers", choices.backup,
                  choices.workers);
    if (choices.staleness_lr && one_way() && in_rounds(chosen_discipline()))
        die_usage("--staleness 1 or more, or inf",
                  "--staleness-lr: nothing is stale in synchronous training");
    if (choices.real) check_real();
}
