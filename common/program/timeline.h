// timeline.h: traces as files. To draw one as a picture, with a lane for each queue and a color for
// each kind of work (lanes.h), call timeline_of() and timelines_draw(). To get a file for a trace
// viewer, call chrome_trace_write(). To end a program's trace and write both, call
// trace_write_files().
#ifndef TIMELINE_H
#define TIMELINE_H

#include "lanes.h"

// One of the timelines in a picture, and the part of it that is drawn, in seconds of its spans.
typedef struct Timeline {
    char *title;
    SpanSet set;
    double start, end;
    bool own_scale; // not that of the timeline before it; those after it share it
} Timeline;

// What is worth looking at: the second step of the last training (the first one touches new
// memory), or its only one; without steps, all of it. The title says which, and how long it took;
// free() it.
Timeline timeline_of(SpanSet set);

// Draws timelines below each other on one scale, unless they ask for another; it begins at 0 for
// each of them. To a PNG and the same as SVG beside it (sheet.h), whole or not at all; die()s if
// that fails. `since` says what is at 0 ("the step began").
void timelines_draw(const char *path, const char *heading, const char *since,
                    const Timeline timelines[], int n);

// Writes a trace in Chrome's trace event format (JSON), which https://ui.perfetto.dev and
// chrome://tracing show, whole or not at all; die()s if that fails. (Source: "Trace Event Format",
// the document that docs/trace-event-format.md of https://github.com/catapult-project/catapult
// links to.) Each set of spans is a process, each queue in it a thread, and each span a complete
// event ("X") in microseconds, with its work as its name. Its category is its label, or its kind of
// work (lanes.h) if it has none. For each copy between two devices, an arrow leads from the
// sender's lane to the receiver's. The copy is done by a queue of one of the two. On the other
// side, the arrow is tied to the piece of work that ended last before the copy began (the sender's)
// or that began first after it had ended (the receiver's). If there is none, there is no arrow.
void chrome_trace_write(const char *path, const SpanSet sets[], int n);

// Ends the trace of all devices, writes the files of --trace and --timeline (NULL: not asked for),
// and says where they are and what was left out. The devices must still be open.
void trace_write_files(const char *trace, const char *timeline);

#endif
