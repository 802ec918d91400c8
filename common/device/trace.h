// trace.h: who computed what, and when: each piece of work of each device with its start and its
// end.
//
//     trace_begin();
//     trace_label("forward");
//     ... = lenet(X, params);          // what is enqueued from here on carries the label
//     int count;
//     TraceSpan *spans = trace_end(&count);
//
// A CPU device's worker reads the clock before and after each task, a GPU puts a timed event before
// and after it into its stream. While nothing is traced neither happens.
#ifndef TRACE_H
#define TRACE_H

#include "device.h"

typedef struct TraceSpan {
    const Device *device; // whose queue did it
    bool communicates;    // its communication queue, and not its compute queue
    const char *work;     // the kernel's name in kernels.h, or "copy"; waiting is no work
    const char *label;    // of trace_label() at the time when it was enqueued; "" if there was none
    double start, end;    // seconds since trace_begin()
} TraceSpan;

// Waits until all devices are idle, then starts recording.
void trace_begin(void);
// The label of all work that is enqueued from now on. The text is copied. Without a trace it does
// nothing.
void trace_label(const char *text);
// Waits until all devices are idle and stops recording. Returns what was recorded, ordered by
// device, queue (first the one that computes) and start; to be given to free(). Work and label stay
// valid.
TraceSpan *trace_end(int *count);

#endif
