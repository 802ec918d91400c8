// trace.c: begins and ends a trace on all queues, and orders what backends reported (spans.h).
#include "trace.h"
#include "backend.h"
#include "modelled_hooks.h"
#include "spans.h"

#include <limits.h>
#include <stdlib.h>

static void begin(Queue *queue) {
    if (queue->device->backend->trace_begin) queue->device->backend->trace_begin(queue);
}

static void end(Queue *queue) {
    if (queue->device->backend->trace_end) queue->device->backend->trace_end(queue);
}

static void for_each_queue(void (*what)(Queue *queue)) {
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = device_of_id(id);
        for (int q = 0; q < QUEUES && device; q++)
            if (device->queues[q]) what(device->queues[q]);
    }
}

// What backends still have to report when an inner trace begins belongs to the outer one.
static void begin_trace(int most, bool of_models) {
    synchronize_all();
    if (is_traced()) for_each_queue(end);
    if (!is_traced() && modelled) modelled->trace();
    spans_begin(most, of_models);
    for_each_queue(begin);
}

void trace_begin(void) { begin_trace(INT_MAX, false); }
void trace_begin_at_most(int most) { begin_trace(most, false); }
void trace_begin_models(void) { begin_trace(INT_MAX, true); }

TraceSpan *trace_end(int *count) {
    synchronize_all();
    for_each_queue(end);
    TraceSpan *spans = spans_end(count);
    if (is_traced()) for_each_queue(begin);
    trace_order(spans, *count);
    return spans;
}

TraceSpan *trace_modelled(int *count) {
    TraceSpan *spans = spans_modelled(count);
    trace_order(spans, *count);
    return spans;
}

static int in_order(const void *left, const void *right) {
    const TraceSpan *a = left, *b = right;
    int ids = device_id(a->device) - device_id(b->device);
    int queues = (int)a->communicates - (int)b->communicates;
    int starts = (a->start > b->start) - (a->start < b->start);
    int ends = (a->end > b->end) - (a->end < b->end);
    return ids ? ids : queues ? queues : starts ? starts : ends ? ends : a->number - b->number;
}

void trace_order(TraceSpan spans[], int count) {
    if (count > 0) qsort(spans, (size_t)count, sizeof *spans, in_order);
}
