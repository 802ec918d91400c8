// queues_picture.c: draws which queue did what, and when. Each run is traced once; the trace has
// the measured times and the modelled ones.
#include "behind.h"

#include "common/book.h"

static Timeline timeline(SpanSet set, const char *kind, const char *name) {
    Timeline t = {.set = set};
    for (int i = 0; i < set.count; i++) t.end = fmax(t.end, set.spans[i].end);
    t.title = xprintf("%s, %s: %.3g ms", kind, name, 1e3 * t.end);
    return t;
}

void draw_queues(const char *path, Job *job, void (*prepare)(Job *job), const Shown shown[],
                 int n) {
    enum { MOST = 4 };
    Timeline measured[2 * MOST], modelled[MOST];
    char *on_machine = xprintf("modelled on %s", modelled_machine_name());
    int num_measured = 0, num_modelled = 0;
    CHECK(n <= MOST, "room for the timelines");
    for (int i = 0; i < n; i++) {
        SpanSet here = {.name = "measured here"}, there = {.name = on_machine, .modelled = true};
        prepare(job);
        trace_begin(); // waits until all devices are idle, and so does trace_end()
        shown[i].enqueue(job);
        here.spans = trace_end(&here.count);        // none if nothing is computed
        there.spans = trace_modelled(&there.count); // none without a machine
        if (here.count) measured[num_measured++] = timeline(here, here.name, shown[i].name);
        if (there.count) modelled[num_modelled++] = timeline(there, there.name, shown[i].name);
    }
    // One below the other; the modelled ones have their own scale.
    modelled[0].own_scale = true;
    for (int i = 0; i < num_modelled; i++) measured[num_measured++] = modelled[i];
    timelines_draw(path, "The queues of the devices", "the host began to enqueue", measured,
                   num_measured);
    for (int i = 0; i < num_measured; i++) {
        free(measured[i].title);
        free((void *)measured[i].set.spans);
    }
    free(on_machine);
}
