// spans.h: how backends report their work while a trace is recorded (trace.h).
#pragma once

#include "trace.h"

// Whether there is a trace, and whether it has room for what is enqueued now. Host thread only.
bool is_traced(void);
bool trace_has_room(void);
// A piece of work that is being enqueued on this queue, with all that is known of it by now. If its
// label is NULL, it is not to be recorded. Otherwise it takes a place in the trace and must be
// given to trace_add(). Host thread only.
TraceSpan trace_span(const Queue *queue, const char *work);
// The same for a copy.
TraceSpan trace_copy(const Queue *queue, const Device *to, const Device *from, size_t bytes);
// The work is done. Start and end are times of seconds_now(). Any thread may call it.
void trace_add(const TraceSpan *span);

// The same for the modelled clock, whose times are seconds since the program began. They are kept
// apart from measured ones. Returns NULL if the work is not to be recorded. Otherwise give the span
// to trace_add_modelled() when its times are known, which frees it.
TraceSpan *trace_modelled_span(const Queue *queue, const char *work);
void trace_add_modelled(TraceSpan *span);

// Whether the trace is one of trace_begin_models().
bool trace_is_of_models(void);

// For trace.c. spans_begin() begins a trace, within the current one if there is one. spans_end()
// ends it and returns what was measured; spans_modelled() then returns what was modelled.
void spans_begin(int most, bool of_models);
TraceSpan *spans_end(int *count);
TraceSpan *spans_modelled(int *count);
