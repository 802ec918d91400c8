// record.h: a step as it was traced: which device computed what, and when.
//
// To get a step, call record_step(); give it back to recorded_free().
#ifndef RECORD_H
#define RECORD_H

#include "../problem.h"
#include "common/device/trace.h"

// A step as trace_end() or trace_modelled() returned it. The first word of a label says what kind
// of work it was: forward, backward, exchange, load, update.
typedef struct Recorded {
    const char *machine; // on which it is modelled; NULL: measured here
    const Strategy *strategy;
    char *title; // for a picture, or NULL; to be freed with the spans
    TraceSpan *spans;
    int count, k;
    Device *devices[MAX_DEVICES];
} Recorded;

// The step of a problem_to_model() is modelled, on the machine of the modelled clock. Any other is
// measured: it is the shortest of several, the one that other programs disturbed least.
Recorded record_step(const Problem *problem, const Strategy *strategy, int k);
void recorded_free(Recorded *r);

// "measured here", "modelled on dgx-a100"; free() it.
char *recorded_kind(const Recorded *r);
// Seconds from the begin of the step to the end of its last piece.
double recorded_seconds(const Recorded *r);

// The share of that time in which a device did nothing at all, mean over the devices.
double unused_share(const Recorded *r);

// Whether a piece of work is of that kind.
bool span_is(const TraceSpan *span, const char *kind);

// Whether there are more workers than cores, so that they slow each other down.
bool crowded(int k);

#endif
