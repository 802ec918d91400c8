// tracing.c: writes the files of --trace and --timeline. They show what all devices did, in
// measured time and in the time of the modelled machine.
#include "timeline.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/model/modelled_clock.h"
#include "sheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Says nothing of a pipe, because this line might go into the same pipe.
static void say_where(const char *what, const char *path) {
    if (!is_written_directly(path)) printf("%s: %s\n", what, path);
}

static void draw(const char *path, const SpanSet sets[], int n) {
    Timeline timelines[2];
    for (int i = 0; i < n; i++) {
        timelines[i] = timeline_of(sets[i]);
        timelines[i].own_scale = i > 0; // another machine's time may be a thousandth of ours
    }
    char *heading = xprintf("%s: which queue did what, and when", program_name());
    timelines_draw(path, heading, "the first work shown began", timelines, n);
    for (int i = 0; i < n; i++) free(timelines[i].title);
    free(heading);
    say_where("timeline", path);
    char *svg = sheet_svg_path(path);
    if (svg) say_where("timeline, to zoom in and to point at", svg);
    free(svg);
}

void trace_write_files(const char *trace, const char *timeline) {
    SpanSet measured = {.name = "measured here"}, modelled = {.modelled = true}, sets[2];
    TraceSpan *spans = trace_end(&measured.count), *others = trace_modelled(&modelled.count);
    char *title = NULL;
    int n = 0;
    measured.spans = spans;
    modelled.spans = others;
    if (trace_left_out()) {
        const SpanSet *full = measured.count > 0 ? &measured : &modelled;
        double last = 0;
        for (int i = 0; i < full->count; i++) last = fmax(last, full->spans[i].end);
        warn("the trace was full after %.1f s: it has the first %d pieces of work, and no later "
             "ones",
             last, full->count);
    }
    if (measured.count > 0 || modelled.count == 0) sets[n++] = measured;
    if (modelled.count > 0) {
        modelled.name = title = xprintf("modelled on %s", modelled_machine()->name);
        sets[n++] = modelled;
    }
    if (trace) {
        chrome_trace_write(trace, sets, n);
        say_where("trace, for https://ui.perfetto.dev or chrome://tracing", trace);
    }
    if (timeline) draw(timeline, sets, n);
    free(title);
    free(spans);
    free(others);
}
