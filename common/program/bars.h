// bars.h: the work of a lane (lanes.h) as bars along an axis of time, for timeline.c. To get the
// bars of a lane, call bars_of(); to get the words for one, bar_title().
#pragma once

#include "lanes.h"

// Which part of the time is shown, and where: `start` is drawn at `left`.
typedef struct Axis {
    double start, end; // seconds
    double left;       // pixels
    double per_second; // pixels
} Axis;

// A point outside of the axis is moved to its nearer end.
double axis_at(const Axis *axis, double seconds);

// The unit in which points in time are given.
typedef struct TimeUnit {
    const char *name, *sign; // "milliseconds", "ms"
    double seconds;
    int decimals; // enough to tell one piece of work from the next
} TimeUnit;

TimeUnit time_unit(double length);

// Some spans of a lane that follow each other, drawn as one.
typedef struct Bar {
    double left, right; // pixels
    WorkKind kind;      // of the largest part of it
    const TraceSpan *spans;
    int count;
} Bar;

// Makes bars of the part of a lane that is shown, and returns how many; free() them. `level` says
// how much is joined. At 0 each span is a bar. At 1, neighbours less than half a pixel apart are
// joined if they have the same kind and label; from 2 on the same kind is enough. With each further
// level this distance doubles. Neighbours that together are narrower than it are joined whatever
// they are, so at some level there are few bars.
int bars_of(const Lane *lane, const Axis *axis, int level, Bar **bars);

// What is known about a bar, with times since the start of the axis: "forward conv1
// (conv2d_forward) on cuda:0, 1.200 ms to 1.530 ms", and for a copy "3 MB from cpu to cuda:0".
// `where` is the name of its device or lane. free() it.
char *bar_title(const Bar *bar, const Axis *axis, const char *where);
