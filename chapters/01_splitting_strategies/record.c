// record.c: traces modelled steps, and says for which share of the time a pipeline's devices idle.
#include "record.h"

#include "common/book.h"

double recorded_seconds(const Recorded *r) {
    double end = 0;
    for (int i = 0; i < r->count; i++) end = fmax(end, r->spans[i].end);
    return end;
}

Recorded record_step(const Problem *problem, const Strategy *strategy, int k) {
    Recorded r = {.k = k};
    int none;
    Spread *s = problem_spread(problem, strategy, k);
    memcpy(r.devices, s->devices, sizeof r.devices);
    trace_begin_models();
    spread_step(s, problem->X, problem->y, problem->lr);
    free(trace_end(&none)); // nothing was computed
    r.spans = trace_modelled(&r.count);
    spread_close(s);
    return r;
}

void recorded_free(Recorded *r) {
    free(r->title);
    free(r->spans);
}

static bool span_is(const TraceSpan *span, const char *kind) {
    return strncmp(span->label, kind, strlen(kind)) == 0;
}

double busy_seconds(const Recorded *r, const Device *device, const char *kind) {
    double seconds = 0;
    for (int i = 0; i < r->count; i++)
        if (r->spans[i].device == device && span_is(&r->spans[i], kind))
            seconds += r->spans[i].end - r->spans[i].start;
    return seconds;
}

double idle_share(const Recorded *r) {
    double first = INFINITY, last = 0, work = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        if (!span_is(span, "forward") && !span_is(span, "backward")) continue;
        first = fmin(first, span->start);
        last = fmax(last, span->end);
    }
    for (int i = 0; i < r->k; i++)
        work +=
            busy_seconds(r, r->devices[i], "forward") + busy_seconds(r, r->devices[i], "backward");
    return 1 - work / (r->k * (last - first));
}

double equal_bubble(int k, int m) { return (double)(k - 1) / (m + k - 1); }
