// spans.h: what backends report of their work while a trace is recorded (trace.h). Only this folder
// includes it, and step_graph.c.
#ifndef SPANS_H
#define SPANS_H

#include "trace.h"

// The label for what is enqueued now, or NULL when it is not to be recorded. Host thread only.
const char *trace_label_now(void);
// Called from any thread; times as seconds_now() gives them.
void trace_add(const Queue *queue, const char *work, const char *label, double start, double end);

// For trace.c. The first forgets what is recorded and begins anew; until the second no labels are
// NULL. The third gives what was recorded away.
void spans_begin(void);
void spans_end(void);
TraceSpan *spans_take(int *count);

#endif
