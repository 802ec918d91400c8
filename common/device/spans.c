// spans.c: see spans.h. The spans of all queues go into one array.
#include "spans.h"
#include "backend.h"
#include "common/base/clock.h"
#include "common/base/error.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Trace {
    struct Trace *outer; // NULL: none
    const char *label;
    int most, places; // that there are, and that were given to work by now
    bool left_out;    // some work got none
    double started;
    TraceSpan *spans; // workers add to it, so it is theirs who hold the mutex
    int count, room;
} Trace;

static Trace *innermost; // NULL: nothing is recorded. It changes only while all queues are empty.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool last_left_out;

// Of trace_step(). Only the host thread reads and writes them, and most of Trace.
static struct {
    int training;
    long step, last; // the last one that was not 0
} now = {.last = LONG_MAX};

// Labels are kept until the program ends: few differ, and spans point to them.
static const char *kept(const char *text) {
    static char **labels;
    static int count;
    for (int i = 0; i < count; i++)
        if (strcmp(labels[i], text) == 0) return labels[i];
    labels = xgrow(labels, (size_t)(count + 1), sizeof *labels);
    return labels[count++] = xstrdup(text);
}

// ---- what is enqueued ------------------------------------------------------------------------

void trace_label(const char *text) {
    if (innermost) innermost->label = kept(text);
}

void trace_step(long step) {
    now.step = step;
    if (step == 0) return;
    if (step <= now.last) now.training++;
    now.last = step;
}

bool is_traced(void) { return innermost; }

const char *trace_label_now(void) {
    return innermost && innermost->places < innermost->most ? innermost->label : NULL;
}

TraceSpan trace_span(const Queue *queue, const char *work) {
    TraceSpan span = {.device = queue->device,
                      .communicates = queue->number == COMMUNICATE,
                      .work = work,
                      .label = trace_label_now(),
                      .training = now.step > 0 ? now.training : 0,
                      .step = now.step};
    if (span.label)
        innermost->places++;
    else if (innermost)
        innermost->left_out = true;
    return span;
}

TraceSpan trace_copy(const Queue *queue, const Device *to, const Device *from, size_t bytes) {
    TraceSpan span = trace_span(queue, "copy");
    span.from = from;
    span.to = to;
    span.bytes = bytes;
    return span;
}

// ---- what is done ----------------------------------------------------------------------------

// Of a trace whose mutex is held, or that nobody else knows.
static void add(Trace *trace, TraceSpan span, double shift) {
    if (trace->count == trace->room) {
        trace->room = trace->room ? 2 * trace->room : 256;
        trace->spans = xgrow(trace->spans, (size_t)trace->room, sizeof(TraceSpan));
    }
    span.start += shift;
    span.end += shift;
    trace->spans[trace->count++] = span;
}

void trace_add(const TraceSpan *span) {
    pthread_mutex_lock(&mutex);
    add(innermost, *span, -innermost->started);
    pthread_mutex_unlock(&mutex);
}

// ---- the trace -------------------------------------------------------------------------------

void spans_begin(int most) {
    Trace *trace = xcalloc(1, sizeof *trace);
    trace->label = kept("");
    trace->most = most;
    trace->started = seconds_now();
    trace->outer = innermost;
    pthread_mutex_lock(&mutex);
    innermost = trace;
    pthread_mutex_unlock(&mutex);
}

// What an inner trace has recorded belongs to the outer one, as far as that has places.
static void add_to_outer(const Trace *inner) {
    Trace *outer = inner->outer;
    double shift = inner->started - outer->started;
    int fitting = inner->count;
    if (fitting > outer->most - outer->places) fitting = outer->most - outer->places;
    for (int i = 0; i < fitting; i++) add(outer, inner->spans[i], shift);
    outer->places += fitting;
    outer->left_out = outer->left_out || inner->left_out || fitting < inner->count;
}

TraceSpan *spans_end(int *count) {
    CHECK(innermost, "trace_begin() comes first");
    pthread_mutex_lock(&mutex);
    Trace ended = *innermost;
    free(innermost);
    innermost = ended.outer;
    if (innermost) add_to_outer(&ended);
    pthread_mutex_unlock(&mutex);
    last_left_out = ended.left_out;
    *count = ended.count;
    return ended.spans;
}

bool trace_left_out(void) { return last_left_out; }
