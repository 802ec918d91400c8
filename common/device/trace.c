// trace.c: see trace.h. Spans of all devices go into one array; backends say when each began and
// ended.
#include "trace.h"
#include "backend.h"
#include "common/base/error.h"
#include "common/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *label; // NULL: nothing is recorded. Only the host thread reads and writes it.
    double started;
    TraceSpan *spans; // workers add to it, so it is theirs who hold the mutex
    size_t count, room;
    pthread_mutex_t mutex;
} trace = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// Labels are kept until the program ends: few differ, and spans point to them.
static const char *kept(const char *text) {
    static char **labels;
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (strcmp(labels[i], text) == 0) return labels[i];
    labels = xgrow(labels, count + 1, sizeof *labels);
    labels[count] = xstrdup(text);
    return labels[count++];
}

void trace_begin(void) {
    CHECK(!trace.label, "trace_end() ends a trace before the next begins");
    synchronize_all();
    trace.count = 0;
    trace.label = kept("");
    trace.started = seconds_now();
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = device_of_id(id);
        if (device && device->backend->trace_begin) device->backend->trace_begin(device);
    }
}

void trace_label(const char *text) {
    if (trace.label) trace.label = kept(text);
}

const char *trace_label_now(void) { return trace.label; }

static int by_device_and_start(const void *left, const void *right) {
    const TraceSpan *a = left, *b = right;
    int ids = device_id(a->device) - device_id(b->device);
    return ids ? ids : (a->start > b->start) - (a->start < b->start);
}

TraceSpan *trace_end(int *count) {
    CHECK(trace.label, "trace_begin() comes first");
    synchronize_all();
    trace.label = NULL;
    for (int id = 0; id < NUM_DEVICE_IDS; id++) {
        Device *device = device_of_id(id);
        if (device && device->backend->trace_end) device->backend->trace_end(device);
    }
    pthread_mutex_lock(&trace.mutex);
    TraceSpan *spans = trace.spans;
    *count = (int)trace.count;
    trace.spans = NULL;
    trace.count = trace.room = 0;
    pthread_mutex_unlock(&trace.mutex);
    if (*count) qsort(spans, (size_t)*count, sizeof *spans, by_device_and_start);
    return spans;
}

void trace_add(const Device *device, const char *work, const char *label, double start,
               double end) {
    pthread_mutex_lock(&trace.mutex);
    if (trace.count == trace.room) {
        trace.room = trace.room ? 2 * trace.room : 256;
        trace.spans = xgrow(trace.spans, trace.room, sizeof *trace.spans);
    }
    trace.spans[trace.count++] =
        (TraceSpan){device, work, label, start - trace.started, end - trace.started};
    pthread_mutex_unlock(&trace.mutex);
}

const char *kernel_name(KernelId kernel) {
#define KERNEL_NAME(name) #name,
    static const char *const names[NUM_KERNELS] = {KERNELS(KERNEL_NAME)};
#undef KERNEL_NAME
    return names[kernel];
}
