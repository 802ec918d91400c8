// trace.c: see trace.h. Backends say when each piece of work began and ended (spans.h).
#include "trace.h"
#include "backend.h"
#include "spans.h"

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

void trace_begin(void) {
    synchronize_all();
    spans_begin();
    for_each_queue(begin);
}

static int in_order(const void *left, const void *right) {
    const TraceSpan *a = left, *b = right;
    int ids = device_id(a->device) - device_id(b->device);
    int queues = (int)a->communicates - (int)b->communicates;
    return ids ? ids : queues ? queues : (a->start > b->start) - (a->start < b->start);
}

TraceSpan *trace_end(int *count) {
    synchronize_all();
    spans_end();
    for_each_queue(end);
    TraceSpan *spans = spans_take(count);
    if (*count) qsort(spans, (size_t)*count, sizeof *spans, in_order);
    return spans;
}
