// spans.h: what backends report of their work while a trace is recorded (trace.h). Only this folder
// includes it, and step_graph.c.
#ifndef SPANS_H
#define SPANS_H

#include "trace.h"

// Whether a trace is recorded, and whether it has room for what is enqueued now: the label for it,
// or NULL when it is not to be recorded. Host thread only.
bool is_traced(void);
const char *trace_label_now(void);
// A piece of work that is being enqueued on this queue, with all that is known of it by now; the
// label is NULL when it is not to be recorded. It takes a place in the trace: whoever asks will
// give it to trace_add(). Host thread only.
TraceSpan trace_span(const Queue *queue, const char *work);
// The same for a copy.
TraceSpan trace_copy(const Queue *queue, const Device *to, const Device *from, size_t bytes);
// It is done; start and end are times as seconds_now() gives them. From any thread.
void trace_add(const TraceSpan *span);

// The same for the modelled clock, which tells its times apart from those that were measured, in
// seconds since the program began. NULL if nothing is recorded, or no more; else to be given to
// trace_add_modelled() when the times are known, which frees it.
TraceSpan *trace_modelled_span(const Queue *queue, const char *work);
void trace_add_modelled(TraceSpan *span);

// Whether the trace is one of trace_begin_models().
bool trace_is_of_models(void);

// For trace.c. The first begins a trace, within the one that is recorded if there is one; the
// second ends it and gives away what was measured; the third, what was modelled in it.
void spans_begin(int most, bool of_models);
TraceSpan *spans_end(int *count);
TraceSpan *spans_modelled(int *count);

#endif
