// spans.c: see spans.h. The spans of all queues go into one array.
#include "spans.h"
#include "backend.h"
#include "common/base/clock.h"
#include "common/base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *label; // NULL: nothing is recorded. Only the host thread reads and writes it.
    double started;
    TraceSpan *spans; // workers add to it, so it is theirs who hold the mutex
    int count, room;
    pthread_mutex_t mutex;
} trace = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// Labels are kept until the program ends: few differ, and spans point to them.
static const char *kept(const char *text) {
    static char **labels;
    static int count;
    for (int i = 0; i < count; i++)
        if (strcmp(labels[i], text) == 0) return labels[i];
    labels = xgrow(labels, (size_t)(count + 1), sizeof *labels);
    return labels[count++] = xstrdup(text);
}

void spans_begin(void) {
    CHECK(!trace.label, "trace_end() ends a trace before the next begins");
    trace.count = 0;
    trace.label = kept("");
    trace.started = seconds_now();
}

void spans_end(void) {
    CHECK(trace.label, "trace_begin() comes first");
    trace.label = NULL;
}

void trace_label(const char *text) {
    if (trace.label) trace.label = kept(text);
}

const char *trace_label_now(void) { return trace.label; }

void trace_add(const Queue *queue, const char *work, const char *label, double start, double end) {
    pthread_mutex_lock(&trace.mutex);
    if (trace.count == trace.room) {
        trace.room = trace.room ? 2 * trace.room : 256;
        trace.spans = xgrow(trace.spans, (size_t)trace.room, sizeof(TraceSpan));
    }
    trace.spans[trace.count++] = (TraceSpan){.device = queue->device,
                                             .communicates = queue->number == COMMUNICATE,
                                             .work = work,
                                             .label = label,
                                             .start = start - trace.started,
                                             .end = end - trace.started};
    pthread_mutex_unlock(&trace.mutex);
}

TraceSpan *spans_take(int *count) {
    pthread_mutex_lock(&trace.mutex);
    TraceSpan *spans = trace.spans;
    *count = trace.count;
    trace.spans = NULL;
    trace.count = trace.room = 0;
    pthread_mutex_unlock(&trace.mutex);
    return spans;
}
