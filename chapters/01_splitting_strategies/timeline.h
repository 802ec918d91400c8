// timeline.h: a recorded step as a picture, and how much of it devices were idle.
#ifndef TIMELINE_H
#define TIMELINE_H

#include "common/device/trace.h"

// A step as trace_end() returned it. The first word of a label says what kind of work it was:
// forward, backward, exchange, load, update.
typedef struct Recorded {
    const char *title;
    TraceSpan *spans;
    int count, k;
    Device *devices[MAX_DEVICES];
} Recorded;

// One lane per device, the steps below each other on one scale of time; a PNG.
void draw_timeline(const char *path, const char *heading, const Recorded steps[], int num_steps);

// The share of the time between the first forward and the last backward in which a device did
// neither, mean over the devices.
double idle_share(const TraceSpan *spans, int count, Device *const devices[], int k);
// What fill-drain with m microbatches comes to if all stages take equally long: (k-1)/(m+k-1).
double equal_bubble(int k, int m);
// The same for stages that take as long as they did in this step: the line moves at the pace of the
// slowest.
double stage_bubble(const TraceSpan *spans, int count, Device *const devices[], int k, int m);

#endif
