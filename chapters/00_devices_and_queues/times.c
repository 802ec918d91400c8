// times.c: see times.h.
#include "times.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/model/modelled_clock.h"
#include "common/program/say.h"
#include "common/program/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static Seconds now(void) {
    return (Seconds){has_values(try_gpu(0)) ? seconds_now() : NAN, modelled_seconds()};
}

static Seconds since(Seconds start) {
    Seconds end = now();
    return (Seconds){end.measured - start.measured, end.modelled - start.modelled};
}

static WorkTimes time_once(void (*prepare)(void), void (*enqueue)(void)) {
    WorkTimes times;
    prepare();
    synchronize_all();
    Seconds start = now();
    enqueue();
    times.enqueued = since(start); // here the host could do something else
    synchronize_all();
    times.done = since(start);
    return times;
}

WorkTimes time_work(void (*prepare)(void), void (*enqueue)(void)) {
    enum { ROUNDS = 3 };
    const double patience = 0.5;                  // seconds
    WorkTimes best = time_once(prepare, enqueue); // its modelled times are kept
    double start = seconds_now();
    best.slowest = best.done.measured;
    for (int i = 1; i < ROUNDS && !isnan(best.done.measured); i++) {
        if (seconds_now() - start + best.done.measured > patience) break;
        WorkTimes other = time_once(prepare, enqueue);
        best.slowest = fmax(best.slowest, other.done.measured);
        if (other.done.measured >= best.done.measured) continue;
        best.enqueued.measured = other.enqueued.measured;
        best.done.measured = other.done.measured;
    }
    return best;
}

static Quartiles rounds_of(const WorkTimes *times) {
    double fastest = times->done.measured;
    return (Quartiles){fastest, fastest, times->slowest};
}

static double measured_ratio(const WorkTimes *a, const WorkTimes *b) {
    bool noisy = too_noisy_to_compare(rounds_of(a), rounds_of(b));
    return noisy ? (double)NAN : b->done.measured / a->done.measured;
}

double times_as_long(const WorkTimes *a, const WorkTimes *b) {
    return modelled_machine() ? b->done.modelled / a->done.modelled : measured_ratio(a, b);
}

static char *as_text(const WorkTimes *a, const WorkTimes *b) {
    double ratio = measured_ratio(a, b), modelled = b->done.modelled / a->done.modelled;
    char *measured = isnan(ratio) ? xstrdup("too noisy to compare") : xprintf("%.2f", ratio), *text;
    if (isnan(a->done.measured))
        text = xprintf("modelled %.2f", modelled);
    else if (isnan(modelled))
        text = xprintf("measured %s", measured);
    else
        text = xprintf("measured %s, modelled %.2f", measured, modelled);
    free(measured);
    return text;
}

void say_times_as_long(int k, const WorkTimes *alone, const WorkTimes *all,
                       const WorkTimes *ordered) {
    if (k == 1) {
        say("With one device the three ways are one: there is nobody to wait for.");
        return;
    }
    char *side = as_text(alone, all), *order = as_text(alone, ordered);
    say("Times as long as device 0 alone: side by side %s; one after the other %s", side, order);
    double later = all->enqueued.modelled - alone->enqueued.modelled; // NAN without a machine
    if (later > 0)
        say("(Modelled, the last device begins %.3f ms after device 0: the host enqueues for the "
            "others first.)",
            1e3 * later);
    int gpus = num_gpus(), cores = num_threads();
    if (gpus > 0 && gpus < k)
        say("Measured here: %d devices on %d GPU%s.", k, gpus, gpus > 1 ? "s" : "");
    else if (gpus == 0 && has_values(try_gpu(0)))
        say("Measured here: %d devices on %d core%s, which other programs use, too.", k, cores,
            cores > 1 ? "s" : "");
    free(side);
    free(order);
}

// ---- the table -------------------------------------------------------------------------------

static Table table;

void print_times_head(void) {
    const Machine *machine = modelled_machine();
    table =
        TABLE(NULL, WORDS("milliseconds until", 36), FIXED("here: enqueued", 3), FIXED("done", 3),
              FIXED(machine ? "modelled: enqueued" : NULL, 3), FIXED(machine ? "done" : NULL, 3));
    say("  (here: %s; modelled: %s)", has_values(try_gpu(0)) ? "measured" : "not measured",
        machine ? machine->name : "not modelled");
    table_head(&table);
}

static void add_cells(double enqueued, double done) {
    table_numbers(&table, isnan(done) ? NAN : 1e3 * enqueued, 1e3 * done);
}

void print_work_times(const char *label, const WorkTimes *times) {
    table_text(&table, "%s", label);
    add_cells(times->enqueued.measured, times->done.measured);
    add_cells(times->enqueued.modelled, times->done.modelled);
}
