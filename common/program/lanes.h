// lanes.h: the spans of a trace (common/device/trace.h) as files and pictures show them: in a lane
// for each queue, and each of some kind of work.
#ifndef LANES_H
#define LANES_H

#include "common/device/trace.h"

// Spans of one kind of time, ordered as trace_order() leaves them.
typedef struct SpanSet {
    const char *name; // which kind: "measured here"
    const TraceSpan *spans;
    int count;
    bool modelled; // on modelled_machine()
} SpanSet;

// The spans of one queue: one behind the other in their set, and in time.
typedef struct Lane {
    const Device *device;
    bool communicates; // see TraceSpan
    const TraceSpan *spans;
    int count;
} Lane;

// Returns how many queues have spans in the set; free() the lanes.
int lanes_of(const SpanSet *set, Lane **lanes);
// "cpu:0 compute", "cpu:0 communication"; free() it.
char *lane_name(const Lane *lane);

typedef enum {
    WORK_FORWARD,
    WORK_BACKWARD,
    WORK_EXCHANGE, // between devices
    WORK_LOAD,     // from the host
    WORK_UPDATE,
    WORK_READ, // to the host
    WORK_OTHER,
    NUM_WORK_KINDS
} WorkKind;

// "forward", "backward", "exchange", "load", "update", "read", "other"
const char *work_kind_name(WorkKind kind);
// A label that begins with one of these names says it. Without such a label copies have the kind of
// the way that they go, and kernels that of their name. Where the name says nothing, it matters
// what was done `before` it in its queue: a product of matrices is backward after backward, and
// else forward; an addition belongs to a forward, backward or exchange before it, and so does a
// copy within a device; all others to a forward or backward. What comes first has WORK_OTHER before
// it.
WorkKind work_kind(const TraceSpan *span, WorkKind before);
// What is known besides the kind: what the label says after its name ("conv1" of "forward conv1"),
// or the whole label if it does not begin with one; without a label, what the work is called.
const char *work_detail(const TraceSpan *span);

#endif
