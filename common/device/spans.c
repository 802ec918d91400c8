// spans.c: the traces that are being recorded, one within the other. Each has one array of spans
// that were measured on all queues, and one of spans that were modelled.
#include "spans.h"
#include "backend.h"
#include "common/base/error.h"
#include "common/base/platform.h"
#include "modelled_hooks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum { MEASURED, MODELLED, TIMES } Time;

typedef struct Spans {
    TraceSpan *list;
    int count;
    size_t room;
} Spans;

typedef struct Trace {
    struct Trace *outer; // NULL: none
    const char *label;
    int most, places[TIMES]; // places for work: how many there are, and how many are taken
    bool left_out;           // some work found no place
    bool of_models;          // of trace_begin_models()
    double started[TIMES];
    Spans spans[TIMES]; // workers add measured ones, so the mutex guards them
} Trace;

static Trace *innermost; // NULL: nothing is recorded. It changes only while all queues are empty.
static Mutex mutex;
static bool paused; // by trace_pause()
static bool last_left_out;
static Spans last_modelled;

// Of trace_step(). Only the host thread reads and writes them, and most of Trace.
static struct {
    int training;
    long step, last; // `last` is the last step that was not 0
} now = {.last = LONG_MAX};

// Labels are kept until the program ends, because spans point to them. Few differ.
static const char *kept(const char *text) {
    static char **labels;
    static int count;
    for (int i = 0; i < count; i++)
        if (strcmp(labels[i], text) == 0) return labels[i];
    labels = xgrow(labels, (size_t)(count + 1), sizeof *labels);
    return labels[count++] = xstrdup(text);
}

// ---- what is enqueued ------------------------------------------------------------------------

const char *trace_label(const char *text) {
    const char *before = innermost ? innermost->label : "";
    if (innermost) innermost->label = kept(text);
    return before;
}

void trace_step(long step) {
    now.step = step;
    if (step == 0) return;
    if (step <= now.last) now.training++;
    now.last = step;
}

void trace_pause(bool pause) { paused = pause; }

bool is_traced(void) { return innermost; }

static bool has_place(Time time) {
    return innermost && !paused && innermost->places[time] < innermost->most;
}

bool trace_has_room(void) { return has_place(MEASURED); }

// False if nothing is recorded now, or if the trace is full.
static bool take_place(Time time) {
    bool has = has_place(time);
    if (has)
        innermost->places[time]++;
    else if (innermost && !paused)
        innermost->left_out = true;
    return has;
}

static TraceSpan span_now(const Queue *queue, const char *work, const char *label) {
    return (TraceSpan){.device = queue->device,
                       .communicates = queue->number == COMMUNICATE,
                       .work = work,
                       .label = label,
                       .training = now.step > 0 ? now.training : 0,
                       .step = now.step};
}

TraceSpan *trace_modelled_span(const Queue *queue, const char *work) {
    if (!take_place(MODELLED)) return NULL;
    TraceSpan *span = xmalloc(sizeof *span);
    *span = span_now(queue, work, innermost->label);
    return span;
}

TraceSpan trace_span(const Queue *queue, const char *work) {
    return span_now(queue, work, take_place(MEASURED) ? innermost->label : NULL);
}

TraceSpan trace_copy(const Queue *queue, const Device *to, const Device *from, size_t bytes) {
    TraceSpan span = trace_span(queue, "copy");
    span.from = from;
    span.to = to;
    span.bytes = bytes;
    return span;
}

// ---- what is done ----------------------------------------------------------------------------

// Call it with the mutex locked, or for a trace that only this thread knows.
static void add(Trace *trace, Time time, TraceSpan span, double shift) {
    Spans *spans = &trace->spans[time];
    spans->list = xroom(spans->list, (size_t)spans->count, &spans->room, sizeof *spans->list);
    span.start += shift;
    span.end += shift;
    span.number = spans->count;
    spans->list[spans->count++] = span;
}

void trace_add(const TraceSpan *span) {
    mutex_lock(&mutex);
    add(innermost, MEASURED, *span, -innermost->started[MEASURED]);
    mutex_unlock(&mutex);
}

void trace_add_modelled(TraceSpan *span) {
    if (innermost) add(innermost, MODELLED, *span, -innermost->started[MODELLED]);
    free(span);
}

// ---- the trace -------------------------------------------------------------------------------

bool trace_is_of_models(void) { return innermost && innermost->of_models; }

void spans_begin(int most, bool of_models) {
    Trace *trace = xcalloc(1, sizeof *trace);
    trace->label = kept("");
    trace->most = most;
    trace->of_models = of_models;
    trace->started[MEASURED] = seconds_now();
    trace->started[MODELLED] = modelled ? modelled->trace_seconds() : 0;
    trace->outer = innermost;
    mutex_lock(&mutex);
    innermost = trace;
    mutex_unlock(&mutex);
}

// What an inner trace has recorded belongs to the outer one too, as far as that has places.
static void add_to_outer(const Trace *inner, Time time) {
    Trace *outer = inner->outer;
    double shift = inner->started[time] - outer->started[time];
    int fitting = inner->spans[time].count;
    if (fitting > outer->most - outer->places[time]) fitting = outer->most - outer->places[time];
    for (int i = 0; i < fitting; i++) add(outer, time, inner->spans[time].list[i], shift);
    outer->places[time] += fitting;
    outer->left_out |= inner->left_out || fitting < inner->spans[time].count;
}

TraceSpan *spans_end(int *count) {
    CHECK(innermost, "trace_begin() comes first");
    mutex_lock(&mutex);
    Trace ended = *innermost;
    free(innermost);
    innermost = ended.outer;
    // (A trace of models is not about what the program's own devices do.)
    for (Time time = 0; time < TIMES && innermost && !ended.of_models; time++)
        add_to_outer(&ended, time);
    mutex_unlock(&mutex);
    last_left_out = ended.left_out;
    free(last_modelled.list);
    last_modelled = ended.spans[MODELLED];
    *count = ended.spans[MEASURED].count;
    return ended.spans[MEASURED].list;
}

TraceSpan *spans_modelled(int *count) {
    TraceSpan *spans = last_modelled.list;
    *count = last_modelled.count;
    last_modelled = (Spans){0};
    return spans;
}

bool trace_left_out(void) { return last_left_out; }
