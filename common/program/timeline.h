// timeline.h: traces as pictures: a lane for each queue, on one scale of time, in colors that say
// what kind of work it was (lanes.h).
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

#endif
