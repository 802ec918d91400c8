// pictures.c: draws modelled steps as timelines, a lane for each device.
#include "behind.h"

#include "common/book.h"

void draw_steps(const char *path, const char *heading, const Recorded steps[], int n) {
    Timeline *timelines = xcalloc((size_t)n, sizeof *timelines);
    for (int i = 0; i < n; i++)
        timelines[i] = (Timeline){.title = steps[i].title,
                                  .set = {"modelled", steps[i].spans, steps[i].count, true},
                                  .end = recorded_seconds(&steps[i])};
    timelines_draw(path, heading, "the step began", timelines, n);
    free(timelines);
}

void draw_three_ways(const Network *network, int images, int microbatches, int k) {
    Problem problem = problem_to_model(network, images, microbatches);
    Recorded steps[NUM_STRATEGIES];
    int n = 0;
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        if (!problem_fits(&problem, strategies[i], k)) continue;
        steps[n] = record_step(&problem, strategies[i], k);
        steps[n].title = xprintf("%s%s: %.3g ms", strategies[i]->name,
                                 strategies[i] == &across_layers ? " (numbers: microbatches)" : "",
                                 1e3 * recorded_seconds(&steps[n]));
        n++;
    }
    char *heading = xprintf("A step of %s with %d images on %d devices of %s", network->name,
                            images, k, modelled_machine_name());
    if (n > 0) draw_steps(book_timeline("_timeline.png"), heading, steps, n);
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
    free(heading);
    problem_free(&problem);
}
