// times.c: takes both kinds of time of some work, until the host had enqueued it and until it was
// done, and prints them.
#include "behind.h"

#include "common/book.h"

static Seconds now(void) { return (Seconds){measured_seconds(), modelled_seconds()}; }

static Seconds since(Seconds start) {
    Seconds end = now();
    return (Seconds){end.measured - start.measured, end.modelled - start.modelled};
}

static WorkTimes time_once(Job *job, void (*prepare)(Job *job), void (*enqueue)(Job *job)) {
    WorkTimes times;
    if (prepare) prepare(job);
    synchronize_all();
    Seconds start = now();
    enqueue(job);
    times.enqueued = since(start); // here the host could do something else
    synchronize_all();
    times.done = since(start);
    return times;
}

WorkTimes time_work(Job *job, void (*prepare)(Job *job), void (*enqueue)(Job *job)) {
    enum { ROUNDS = 3 };
    const double patience = 0.5;                       // seconds
    WorkTimes best = time_once(job, prepare, enqueue); // its modelled times are kept
    double start = measured_seconds();
    best.slowest = best.done.measured;
    for (int i = 1; i < ROUNDS && !isnan(best.done.measured); i++) {
        if (measured_seconds() - start + best.done.measured > patience) break;
        WorkTimes other = time_once(job, prepare, enqueue);
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
    double modelled = b->done.modelled / a->done.modelled;
    return isnan(modelled) ? measured_ratio(a, b) : modelled;
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
    else if (gpus == 0 && !isnan(all->done.measured))
        say("Measured here: %d devices on %d core%s, which other programs use, too.", k, cores,
            cores > 1 ? "s" : "");
    free(side);
    free(order);
}

// ---- the table -------------------------------------------------------------------------------

Table times_table(void) {
    Table t =
        TABLE(NULL, WORDS("milliseconds until", 36), FIXED("here: enqueued", 3), FIXED("done", 3),
              FIXED("modelled: enqueued", 3, .modelled = true), FIXED("done", 3, .modelled = true));
    say("  (here: %s; modelled: %s)", isnan(measured_seconds()) ? "not measured" : "measured",
        modelled_machine_name());
    table_head(&t);
    return t;
}

void add_times(Table *t, const char *label, const WorkTimes *times) {
    const Seconds *enqueued = &times->enqueued, *done = &times->done;
    table_text(t, "%s", label);
    table_numbers(t, 1e3 * enqueued->measured, 1e3 * done->measured, 1e3 * enqueued->modelled,
                  1e3 * done->modelled);
}
