// pictures.c: modelled steps as timelines, a lane for each device; and how idle pipelines are.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

// Modelled steps below each other, a lane for each device. Frees them, and the heading.
static void draw_steps(const char *path, char *heading, Recorded steps[], int n) {
    Timeline *timelines = xcalloc((size_t)n, sizeof *timelines);
    for (int i = 0; i < n; i++)
        timelines[i] = (Timeline){.title = steps[i].title,
                                  .set = {"modelled", steps[i].spans, steps[i].count, true},
                                  .end = recorded_seconds(&steps[i])};
    if (n > 0) timelines_draw(path, heading, "the step began", timelines, n);
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
    free(timelines);
    free(heading);
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
    draw_steps(book_timeline("_timeline.png"),
               xprintf("A step of %s with %d images on %d devices of %s", network->name, images, k,
                       modelled_machine_name()),
               steps, n);
    problem_free(&problem);
}

// ---- pipelines -------------------------------------------------------------------------------

// Minibatches for which 32-bit addresses suffice, as WebAssembly has them.
static Problem problem_named(const char *name, int m) {
    if (strcmp(name, "lenet") == 0) return problem_to_model(&lenet_network, 256, m);
    if (strcmp(name, "alexnet") == 0) return problem_to_model(&alexnet_network, 128, m);
    if (strcmp(name, "resnet-18") == 0) return problem_to_model(&resnet18_network, 32, m);
    return problem_to_model(&wide_network, 1024, m);
}

static Recorded pipeline_of(Problem *problem, int k, int m) {
    problem->microbatches = m;
    Recorded r = record_step(problem, &across_layers, k);
    r.title = xprintf("%s, %d microbatch%s: %.3g ms, idle %.0f%%; (k-1)/(m+k-1) is %.0f%%",
                      problem->network->name, m, m > 1 ? "es" : "", 1e3 * recorded_seconds(&r),
                      100 * idle_share(&r), 100 * equal_bubble(k, m));
    return r;
}

void show_bubbles(int k) {
    Problem wide = problem_named("equal", 1), alexnet = problem_named("alexnet", 1);
    enum { NUM_MS = 4 };
    const int ms[NUM_MS] = {1, 2, 4, 8};
    Recorded equal[NUM_MS], other[NUM_MS];
    if (k > 1 && problem_fits(&wide, &across_layers, k)) {
        printf("\n");
        Table t = TABLE(NULL, WHOLE("microbatches"), FIXED("formula", 1, .unit = "%"),
                        FIXED(wide_network.name, 1, .unit = "%"),
                        FIXED(alexnet_network.name, 1, .unit = "%"));
        for (int i = 0; i < NUM_MS; i++) {
            equal[i] = pipeline_of(&wide, k, ms[i]);
            other[i] = pipeline_of(&alexnet, k, ms[i]);
            table_numbers(&t, ms[i], equal_bubble(k, ms[i]), idle_share(&equal[i]),
                          idle_share(&other[i]));
        }
        Recorded steps[] = {equal[0], equal[3], other[2], other[3]};
        draw_steps(book_timeline("_bubble.png"),
                   xprintf("Pipelines on %d devices of %s", k, modelled_machine_name()), steps, 4);
        for (int i = 1; i < 3; i++) recorded_free(&equal[i]);
        for (int i = 0; i < 2; i++) recorded_free(&other[i]);
    }
    problem_free(&wide);
    problem_free(&alexnet);
}

// ---- the figure to move -----------------------------------------------------------------------

const char pipeline_names[] = "none|lenet|alexnet|resnet-18|equal";

// One bar for the kernels of a microbatch that follow each other at once: fewer to draw.
static void join_kernels(Recorded *r) {
    int n = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        TraceSpan *before = n > 0 ? &r->spans[n - 1] : NULL;
        if (before && before->device == span->device && !before->bytes && !span->bytes &&
            strcmp(before->label, span->label) == 0 && span->start - before->end < 1e-9) {
            before->end = span->end;
            before->work = "kernels";
        } else
            r->spans[n++] = *span;
    }
    r->count = n;
}

// A row of the table: this strategy on k devices. The idle share is the pipeline's, which also
// becomes the picture. Where the network has fewer pieces than k, there is none.
static void add_row(Table *t, const Problem *problem, const Strategy *strategy, int k,
                    const char *svg) {
    const Network *network = problem->network;
    double seconds = NAN, idle = NAN;
    if (problem_fits(problem, strategy, k) && strategy != &across_layers)
        seconds = modelled_step(problem, strategy, k);
    else if (problem_fits(problem, strategy, k)) {
        Recorded r = record_step(problem, strategy, k);
        seconds = recorded_seconds(&r);
        idle = idle_share(&r);
        r.title = xprintf("%s, %d images in %d microbatches", network->name, problem->X->shape[0],
                          problem->microbatches);
        book_result("a pipeline of %s on %d devices is idle for %.1f%% of the time", network->name,
                    k, 100 * idle);
        join_kernels(&r);
        draw_steps(svg, xstrdup("A pipeline, modelled"), &r, 1);
    }
    table_text(t, "%s", network->name);
    table_text(t, "%s", k == 1 ? "one device" : strategy->name);
    table_numbers(t, k, network_pieces(network), seconds, idle,
                  strategy == &across_layers ? equal_bubble(k, problem->microbatches) : NAN);
}

void model_one_pipeline(const char *name, int k, int m, const char *csv, const char *svg) {
    Problem problem = problem_named(name, m);
    OutputFile file = output_open(csv);
    Table t =
        TABLE(file.stream, WORDS("network", 15, .csv = "network"),
              WORDS("strategy", 13, .csv = "strategy"), WHOLE("k", .csv = "devices"),
              WHOLE(NULL, .csv = "pieces"), DIGITS("a step", 4, .unit = "ms", .csv = "seconds"),
              FIXED("idle", 1, .unit = "%", .csv = "idle"),
              FIXED("(k-1)/(m+k-1)", 1, .unit = "%", .csv = "formula"));
    add_row(&t, &problem, &across_data, 1, svg);
    for (int i = 0; i < NUM_STRATEGIES && k > 1; i++) add_row(&t, &problem, strategies[i], k, svg);
    output_close(&file);
    problem_free(&problem);
}
