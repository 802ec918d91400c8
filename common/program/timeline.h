// timeline.h: traces as files. To draw one as a picture, with a lane for each queue and a color for
// each kind of work (lanes.h), call timeline_of() and timelines_draw(). To get a file for a trace
// viewer, call chrome_trace_write().
#pragma once

#include "lanes.h"

// One of the timelines in a picture, and the part of it that is drawn, in seconds of its spans.
typedef struct Timeline {
    char *title;
    SpanSet set;
    double start, end;
    bool own_scale;    // it begins a new scale, which the timelines after it share
    const char *lane;  // what a lane is called, "worker". NULL: as its device
    const char *other; // the legend's name for WORK_OTHER; the first timeline's counts. NULL: other
    char *arrow;       // words beside an arrow below the last lane; NULL: there is none
    double from, to;   // where the arrow is
} Timeline;

// The part that is worth looking at: the second step of the last training (the first one touches
// new memory), or its only step, or everything if there are no steps. The title says which, and how
// long it took. free() it.
Timeline timeline_of(SpanSet set);

// Draws timelines below each other on one scale, unless one of them begins a new scale. Each starts
// at 0. Writes a PNG and an SVG beside it (sheet.h), each whole or not at all, and die()s if that
// fails. `since` says what happened at 0 ("the step began").
void timelines_draw(const char *path, const char *heading, const char *since,
                    const Timeline timelines[], int n);

// Writes a trace in Chrome's trace event format (JSON), which https://ui.perfetto.dev and
// chrome://tracing show, whole or not at all; die()s if that fails. (Source: "Trace Event Format",
// the document that docs/trace-event-format.md of https://github.com/catapult-project/catapult
// links to.) Each set of spans is a process, each queue in it a thread, and each span a complete
// event ("X") in microseconds, named by its work. Its category is its label, or without a label its
// kind of work (lanes.h). For each copy between two devices, an arrow leads from the
// sender's lane to the receiver's. The copy is done by a queue of one of the two. On the other
// side, the arrow is tied to the piece of work that ended last before the copy began (the sender's)
// or that began first after it had ended (the receiver's). If there is none, there is no arrow.
void chrome_trace_write(const char *path, const SpanSet sets[], int n);
