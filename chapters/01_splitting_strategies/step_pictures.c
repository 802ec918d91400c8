// step_pictures.c: see step_pictures.h.
#include "step_pictures.h"

#include "common/base/error.h"
#include "common/program/book.h"
#include "common/program/timeline.h"
#include "bubble.h"

#include <stdio.h>
#include <stdlib.h>

void draw_steps(const char *suffix, const char *heading, const Recorded steps[], int n) {
    const char *path = book_output(suffix);
    Timeline *timelines = xcalloc((size_t)n, sizeof *timelines);
    for (int i = 0; i < n; i++)
        timelines[i] = (Timeline){.title = steps[i].title,
                                  .set = {"measured here", steps[i].spans, steps[i].count},
                                  .end = recorded_seconds(&steps[i])};
    timelines_draw(path, heading, "the step began", timelines, n);
    free(timelines);
    printf("%s: %s\n", heading, path);
}

void show_timeline(const Problem *problem, int k) {
    Recorded steps[NUM_STRATEGIES];
    int n = 0;
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        if (k > strategies[i]->most_devices(problem->network)) continue;
        Recorded r = record_step(problem, strategies[i], k);
        r.title = xprintf("%s%s: %.1f ms, idle %.0f%%", strategies[i]->name,
                          strategies[i] == &across_layers ? " (numbers: microbatches)" : "",
                          1e3 * recorded_seconds(&r), 100 * idle_share(&r));
        steps[n++] = r;
    }
    char *cores =
        crowded(k) ? xprintf(" that share %d core%s", num_threads(), num_threads() > 1 ? "s" : "")
                   : xstrdup("");
    char *heading = xprintf("One step of %s, %d images, on %d devices%s", problem->network->name,
                            problem->X->shape[0], k, cores);
    char *suffix = xprintf("_timeline_%d.png", k);
    draw_steps(suffix, heading, steps, n);
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
    free(cores);
    free(heading);
    free(suffix);
}
