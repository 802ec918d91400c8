// queues_picture.c: see queues_picture.h.
#include "queues_picture.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/timeline.h"

#include <math.h>
#include <stdlib.h>

static Timeline timeline(const char *kind, const char *name, const TraceSpan *spans, int count) {
    Timeline t = {.set = {kind, spans, count, false}};
    for (int i = 0; i < count; i++) t.end = fmax(t.end, spans[i].end);
    t.title = xprintf("%s, %s: %.3g ms", kind, name, 1e3 * t.end);
    return t;
}

void draw_queues(const char *path, void (*prepare)(void), const Shown shown[], int n) {
    const Machine *machine = modelled_machine();
    char *modelled = machine ? xprintf("modelled on %s", machine->name) : NULL;
    Timeline *timelines = xcalloc(2 * (size_t)n, sizeof *timelines), *last = timelines + n;
    for (int i = 0; i < n; i++) {
        int count;
        prepare();
        trace_begin(); // waits until all devices are idle, and so does trace_end()
        shown[i].enqueue();
        TraceSpan *spans = trace_end(&count);
        timelines[i] = timeline("measured here", shown[i].name, spans, count);
        if (!machine) continue;
        spans = trace_modelled(&count);
        *last = timeline(modelled, shown[i].name, spans, count);
        last->set.modelled = true;
        last->own_scale = i == 0;
        last++;
    }
    int first = has_values(try_gpu(0)) ? 0 : n; // where nothing was computed nothing was measured
    timelines_draw(path, "The queues of the devices", "the host began to enqueue",
                   timelines + first, (int)(last - timelines) - first);
    for (Timeline *t = timelines; t < last; t++) {
        free(t->title);
        free((void *)t->set.spans);
    }
    free(timelines);
    free(modelled);
}
