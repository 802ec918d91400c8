// choices.c: see choices.h.
#include "choices.h"

#include "common/base/error.h"

#include <math.h>
#include <stdio.h>

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

void read_slow(const Flags *flags, double slow[]) {
    int worker;
    double times;
    for (int w = 0; w < flags->workers; w++) slow[w] = 1;
    if (!flags->slow) {
        slow[flags->workers - 1] = flags->workers > 1 ? 4 : 1;
        return;
    }
    if (!read_pair(flags->slow, &worker, &times))
        die_usage("WORKER=TIMES, as --slow 3=4", "--slow %s: not two numbers", flags->slow);
    check_worker("slow", flags->slow, worker, flags->workers);
    if (!(times >= 1 && times <= 1e6))
        die_usage("1 is as fast as the others, and a million the most",
                  "--slow %s: a worker cannot take %g times as long", flags->slow, times);
    slow[worker] = times;
}

void read_dies(const Flags *flags, Pace *pace) {
    double step;
    if (!flags->dies) return;
    if (!read_pair(flags->dies, &pace->dies, &step))
        die_usage("WORKER=STEP, as --dies 2=100", "--dies %s: not two numbers", flags->dies);
    check_worker("dies", flags->dies, pace->dies, pace->W);
    if (!(step >= 0 && step <= 1e9) || step != floor(step))
        die_usage("steps are counted from 0", "--dies %s: no such step", flags->dies);
    pace->at = (int)step;
    pace->timeout = 0;
    for (int w = 0; w < pace->W; w++)
        pace->timeout =
            fmax(pace->timeout, 2 * pace->slow[w] * (pace->compute + 2 * pace->transfer));
}

bool one_way(const Flags *flags) {
    return flags->staleness >= 0 || flags->backup >= 0 || flags->schedule || flags->dies;
}

Discipline chosen_discipline(const Flags *flags) {
    if (flags->backup >= 0) return (Discipline){0, flags->backup};
    return (Discipline){flags->staleness < 0 ? NO_BOUND : flags->staleness, 0};
}

// What a run without a schedule has no use for.
static void check_real(const Flags *flags) {
    static const char leave_out[] = "leave it out: the workers of --real come when they like";
    if (flags->staleness >= 0) die_usage(leave_out, "--real has no use for --staleness");
    if (flags->backup >= 0) die_usage(leave_out, "--real has no use for --backup");
    if (flags->schedule) die_usage(leave_out, "--real has no use for --schedule");
    if (flags->staleness_lr)
        die_usage("leave it out: these servers apply all pushes as they are",
                  "--real has no use for --staleness-lr");
    if (flags->slow && num_gpus() > 0)
        die_usage("--backend cpu", "--real --slow: GPUs cannot be slowed down");
}

void check_choices(const Flags *flags) {
    if (flags->backend == BACKEND_MODEL && (one_way(flags) || flags->real))
        die_usage("leave one of the two out", "--backend model has no values to train with");
    if (flags->staleness >= 0 && flags->backup >= 0)
        die_usage("give one of the two: backup workers are a form of synchronous training",
                  "--staleness and --backup");
    if (flags->backup >= flags->workers)
        die_usage("some workers must be left", "--backup %d of %d workers", flags->backup,
                  flags->workers);
    if (flags->staleness_lr && one_way(flags) && in_rounds(chosen_discipline(flags)))
        die_usage("--staleness 1 or more, or inf",
                  "--staleness-lr: nothing is stale in synchronous training");
    if (flags->real) check_real(flags);
}
