// bubble.c: prints and draws the idle share of pipelines, modelled.
#include "behind.h"

#include "common/book.h"

enum { NUM_MS = 3 };
static const int ms[NUM_MS] = {1, 2, 8};

static Recorded pipeline_of(Problem *problem, int k, int m) {
    problem->microbatches = m;
    Recorded r = record_step(problem, &across_layers, k);
    r.title = xprintf("%d microbatch%s: %.3g ms, idle %.0f%%; (k-1)/(m+k-1) is %.0f%%", m,
                      m > 1 ? "es" : "", 1e3 * recorded_seconds(&r), 100 * idle_share(&r),
                      100 * equal_bubble(k, m));
    return r;
}

void show_bubbles(int k) {
    enum { IMAGES = 1024, IMAGES_OF_ALEXNET = 128 };
    Problem wide = problem_to_model(&wide_network, IMAGES, 1);
    Problem alexnet = problem_to_model(&alexnet_network, IMAGES_OF_ALEXNET, 1);
    Recorded steps[NUM_MS];
    if (k > 1 && problem_fits(&wide, &across_layers, k)) {
        printf("\n");
        Table t = TABLE(NULL, WHOLE("microbatches"), FIXED("formula", 1, .unit = "%"),
                        FIXED(wide_network.name, 1, .unit = "%"),
                        FIXED(alexnet_network.name, 1, .unit = "%"));
        for (int i = 0; i < NUM_MS; i++) {
            steps[i] = pipeline_of(&wide, k, ms[i]);
            Recorded other = pipeline_of(&alexnet, k, ms[i]);
            table_numbers(&t, ms[i], equal_bubble(k, ms[i]), idle_share(&steps[i]),
                          idle_share(&other));
            recorded_free(&other);
        }
        char *heading = xprintf("A pipeline of %s on %d devices of %s", wide_network.name, k,
                                modelled_machine_name());
        draw_steps(book_timeline("_bubble.png"), heading, steps, NUM_MS);
        for (int i = 0; i < NUM_MS; i++) recorded_free(&steps[i]);
        free(heading);
    }
    problem_free(&wide);
    problem_free(&alexnet);
}
