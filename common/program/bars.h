// bars.h: the work of a lane (lanes.h) as bars along an axis of time, as timelines draw it.
#ifndef BARS_H
#define BARS_H

#include "lanes.h"

// What of the time is shown, and where: from `start` to `end`, with `start` at `left`.
typedef struct Axis {
    double start, end; // seconds
    double left;       // pixels
    double per_second; // pixels
} Axis;

// What is outside is moved to its nearer end.
double axis_at(const Axis *axis, double seconds);

// In which unit lengths of time are told.
typedef struct TimeUnit {
    const char *name, *sign; // "milliseconds", "ms"
    double seconds;
    int decimals; // that a point in time has, to be told from the next piece of work
} TimeUnit;

TimeUnit time_unit(double length);

// Some spans of a lane that follow each other, drawn as one.
typedef struct Bar {
    double left, right; // pixels
    WorkKind kind;      // that of the most of it
    const TraceSpan *spans;
    int count;
} Bar;

// How much is put together: at 0 each span is a bar. From 1 on neighbours less than half a pixel
// apart are one if they have one kind and label, from 2 on if they have one kind. With each further
// level the distance doubles, and what is narrower than it becomes one bar whatever it is: so there
// are few bars at some level.
//
// Makes the bars of what is shown of a lane; returns how many there are; free() them.
int bars_of(const Lane *lane, const Axis *axis, int level, Bar **bars);

// All that is known of a bar, its times from the start of the axis on: "forward conv1
// (conv2d_forward) on cuda:0: 1.200 ms to 1.530 ms"; of a copy also "3 MB from cpu to cuda:0".
// free() it.
char *bar_title(const Bar *bar, const Axis *axis);

#endif
