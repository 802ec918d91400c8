// step_pictures.c: draws recorded steps as timelines, a lane for each device.
#include "behind.h"

#include "common/book.h"

void draw_steps(const char *suffix, const char *heading, const Recorded steps[], int n) {
    const char *path = book_timeline(suffix);
    Timeline *timelines = xcalloc((size_t)n, sizeof *timelines);
    for (int i = 0; i < n; i++)
        timelines[i] = (Timeline){.title = steps[i].title,
                                  .set = {steps[i].machine ? "modelled" : "measured here",
                                          steps[i].spans, steps[i].count, steps[i].machine != NULL},
                                  .end = recorded_seconds(&steps[i]),
                                  .own_scale = i > 0 && !steps[i].machine != !steps[i - 1].machine};
    timelines_draw(path, heading, "the step began", timelines, n);
    free(timelines);
    say("\n%s: %s", heading, path);
}

static char *title_of(const Recorded *r, const Problem *problem) {
    char *kind = recorded_kind(r);
    char *title = xprintf("%s, %s, %d images, %s%s: %.3g ms, idle %.0f%%", kind,
                          problem->network->name, problem->X->shape[0], r->strategy->name,
                          r->strategy == &across_layers ? " (numbers: microbatches)" : "",
                          1e3 * recorded_seconds(r), 100 * unused_share(r));
    free(kind);
    return title;
}

// Adds the three ways to `steps`, all measured or all modelled; returns how many there are then.
static int record_ways(const Problem *problem, int k, Recorded steps[], int n) {
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        if (!problem_fits(problem, strategies[i], k)) continue;
        Recorded r = record_step(problem, strategies[i], k);
        r.title = title_of(&r, problem);
        steps[n++] = r;
    }
    return n;
}

void show_timeline(const Problem *measured, const Problem *modelled, int k) {
    Recorded steps[2 * NUM_STRATEGIES];
    int n = measured ? record_ways(measured, k, steps, 0) : 0;
    n = record_ways(modelled, k, steps, n);
    char *heading =
        xprintf("One step on %d devices%s", k,
                n > 0 && !steps[0].machine && crowded(k) ? " (here they share too few cores)" : "");
    char *suffix = xprintf("_timeline_%d.png", k);
    if (n > 0) draw_steps(suffix, heading, steps, n);
    for (int i = 0; i < n; i++) {
        if (steps[i].machine) // the measured steps differ from run to run
            printf("  %s %-14s %5.3g ms on %s, idle %2.0f%%\n", modelled->network->name,
                   steps[i].strategy->name, 1e3 * recorded_seconds(&steps[i]), steps[i].machine,
                   100 * unused_share(&steps[i]));
        recorded_free(&steps[i]);
    }
    free(heading);
    free(suffix);
}
