// record.h: which device computes what, and when, in a modelled step; and how idle a pipeline is.
#pragma once

#include "problem.h"
#include "common/device/trace.h"

// A step as trace_modelled() returned it. The first word of a label says what kind of work it was:
// forward, backward, exchange, load, update.
typedef struct Recorded {
    char *title; // for a picture, or NULL; to be freed with the spans
    TraceSpan *spans;
    int count, k;
    Device *devices[MAX_DEVICES];
} Recorded;

// The step of a problem_to_model(), on the machine of the modelled clock; for recorded_free().
Recorded record_step(const Problem *problem, const Strategy *strategy, int k);
void recorded_free(Recorded *r);

// Seconds from the begin of the step to the end of its last piece.
double recorded_seconds(const Recorded *r);

// Seconds that a device worked on what has labels of this kind.
double busy_seconds(const Recorded *r, const Device *device, const char *kind);
// The share of the time between the first forward and the last backward in which a device did
// neither, mean over the devices.
double idle_share(const Recorded *r);
// The same for fill-drain with m microbatches if all stages take equally long: (k-1)/(m+k-1).
double equal_bubble(int k, int m);
