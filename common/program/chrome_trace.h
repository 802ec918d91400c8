// chrome_trace.h: traces in Chrome's trace event format, which https://ui.perfetto.dev and
// chrome://tracing show. (Source: "Trace Event Format", the document that
// docs/trace-event-format.md of https://github.com/catapult-project/catapult links to.)
#ifndef CHROME_TRACE_H
#define CHROME_TRACE_H

#include "lanes.h"

// Writes the JSON file, whole or not at all; die()s if that fails. Each set of spans is a process,
// each queue in it a thread, each span a complete event ("X") in microseconds with its work as its
// name. Its category is its label, or without one its kind of work (lanes.h). An arrow leads from
// the sender's lane to the receiver's for each copy between two devices: such a copy is done by a
// queue of one of them, and on the other side the arrow is tied to the piece of work that ended
// last before the copy began (the sender's), or began first after it had ended (the receiver's). If
// there is none, there is no arrow.
void chrome_trace_write(const char *path, const SpanSet sets[], int n);

#endif
