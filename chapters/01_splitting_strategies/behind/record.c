// record.c: traces steps, and says how much of its time a step has used.
#include "record.h"

#include "common/book.h"

double recorded_seconds(const Recorded *r) {
    double end = 0;
    for (int i = 0; i < r->count; i++) end = fmax(end, r->spans[i].end);
    return end;
}

double unused_share(const Recorded *r) {
    double work = 0;
    for (int i = 0; i < r->count; i++) work += r->spans[i].end - r->spans[i].start;
    return 1 - work / (r->k * recorded_seconds(r));
}

static Recorded record_once(const Problem *problem, Spread *s) {
    Recorded r = {.strategy = s->strategy, .k = s->k};
    memcpy(r.devices, s->devices, sizeof r.devices);
    trace_begin();
    problem_step(problem, s);
    r.spans = trace_end(&r.count);
    return r;
}

static Recorded record_modelled(const Problem *problem, const Strategy *strategy, int k) {
    Recorded r = {.machine = modelled_machine_name(), .strategy = strategy, .k = k};
    int none;
    Spread *s = problem_spread(problem, strategy, k);
    memcpy(r.devices, s->devices, sizeof r.devices);
    trace_begin_models();
    problem_step(problem, s);
    free(trace_end(&none)); // nothing was computed
    r.spans = trace_modelled(&r.count);
    spread_close(s);
    return r;
}

Recorded record_step(const Problem *problem, const Strategy *strategy, int k) {
    enum { RUNS = 9 };
    if (problem->only_time) return record_modelled(problem, strategy, k);
    Spread *s = problem_spread(problem, strategy, k);
    problem_step(problem, s); // the first touches new memory
    Recorded best = record_once(problem, s);
    for (int i = 1; i < RUNS; i++) {
        Recorded other = record_once(problem, s);
        bool shorter = recorded_seconds(&other) < recorded_seconds(&best);
        recorded_free(shorter ? &best : &other);
        if (shorter) best = other;
    }
    spread_close(s);
    return best;
}

void recorded_free(Recorded *r) {
    free(r->title);
    free(r->spans);
}

char *recorded_kind(const Recorded *r) {
    return r->machine ? xprintf("modelled on %s", r->machine) : xstrdup("measured here");
}

bool span_is(const TraceSpan *span, const char *kind) {
    return strncmp(span->label, kind, strlen(kind)) == 0;
}

bool crowded(int k) { return num_gpus() == 0 && k > num_threads(); }
