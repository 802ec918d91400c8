// lanes.h: the spans of a trace (common/device/trace.h) as files and pictures show them. To sort
// them into a lane for each queue, call lanes_of(). To know the kind of work of each span, call
// work_kind() for one span of a lane after the other.
#pragma once

#include "common/device/trace.h"

// Spans of one kind of time, ordered as trace_order() leaves them.
typedef struct SpanSet {
    const char *name; // which kind: "measured here"
    const TraceSpan *spans;
    int count;
    bool modelled; // on modelled_machine()
} SpanSet;

// The spans of one queue, which follow each other in their set, and in time.
typedef struct Lane {
    const Device *device;
    bool communicates; // see TraceSpan
    const TraceSpan *spans;
    int count;
} Lane;

// Returns how many queues have spans in the set; free() the lanes.
int lanes_of(const SpanSet *set, Lane **lanes);

typedef enum {
    WORK_COMPUTE, // that is part of no training, if its label says so
    WORK_FORWARD,
    WORK_BACKWARD,
    WORK_EXCHANGE, // between devices
    WORK_LOAD,     // from the host
    WORK_UPDATE,
    WORK_READ, // to the host
    WORK_OTHER,
    NUM_WORK_KINDS
} WorkKind;

// "compute", "forward", "backward", "exchange", "load", "update", "read", "other"
const char *work_kind_name(WorkKind kind);
// If the span's label begins with one of these names, that is its kind. Otherwise the kind of a
// copy follows from where it goes, and the kind of a kernel from its name. If these do not say, it
// depends on the kind of the work `before` the span in its queue (WORK_OTHER for the first span). A
// matrix product is backward after backward work, and otherwise forward. An addition, or a copy
// within a device, has the kind of forward, backward or exchange work before it. Any other kernel
// has the kind of forward or backward work before it.
WorkKind work_kind(const TraceSpan *span, WorkKind before);
// What is known besides the kind: the label without that name ("conv1" of "forward conv1"), or the
// name of the work if there is no label.
const char *work_detail(const TraceSpan *span);
