// wrapper_timelines.c: see wrapper_timelines.h.
#include "wrapper_timelines.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/program/book.h"
#include "common/program/say.h"
#include "common/program/timeline.h"
#include "step_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUM_STEPS = 3 };

static Way way_of(int step, const NetworkKind *network, int k, size_t bucket_bytes) {
    Way way = {.kind = WAY_DP, .network = network, .classes = 10, .k = k};
    if (step == 0) return way;
    way.kind = WAY_DDP;
    way.ddp.bucket_bytes = step == 1 ? ONE_BUCKET : bucket_bytes;
    return way;
}

static const char *const step_names[NUM_STEPS] = {"DP", "DDP with one bucket", "DDP with buckets"};

// ---- pictures ----------------------------------------------------------------------------------

// (Measured lengths say what else ran on this computer, so they are left out.)
static char *title_of(const StepRecord *r, const char *kind, int step) {
    char *buckets = step < 2 ? xstrdup("") : xprintf(" of %zu KiB", r->way.ddp.bucket_bytes >> 10);
    char *length = r->modelled ? xprintf(": %.3g ms", 1e3 * r->seconds) : xstrdup("");
    char *title = xprintf("%s, %s%s%s", kind, step_names[step], buckets, length);
    free(buckets);
    free(length);
    return title;
}

static void draw(StepRecord *const steps[], const char *suffix, const char *kind) {
    const char *path = book_timeline(suffix);
    Timeline timelines[NUM_STEPS];
    char *heading = xprintf("One step of %s on %d devices, %d images", steps[0]->way.network->title,
                            steps[0]->way.k, steps[0]->rows);
    for (int s = 0; s < NUM_STEPS; s++)
        timelines[s] = (Timeline){.title = title_of(steps[s], kind, s),
                                  .set = {step_names[s], steps[s]->spans, steps[s]->count, true},
                                  .end = steps[s]->seconds};
    timelines_draw(path, heading, "the step began", timelines, NUM_STEPS);
    for (int s = 0; s < NUM_STEPS; s++) free(timelines[s].title);
    free(heading);
    printf("\ntimeline: %s\n", path);
}

static void write_trace(StepRecord *const steps[]) {
    const char *path = book_output("_modelled.json");
    SpanSet sets[NUM_STEPS];
    for (int s = 0; s < NUM_STEPS; s++)
        sets[s] = (SpanSet){step_names[s], steps[s]->spans, steps[s]->count, true};
    chrome_trace_write(path, sets, NUM_STEPS);
    printf("the same for ui.perfetto.dev: %s\n", path);
}

// ---- in words ----------------------------------------------------------------------------------

// Where one of the devices' queues begins or ends a piece of work.
typedef struct Edge {
    double at;
    int device, queue, change; // device: its place among the step's; change: 1 or -1
} Edge;

static int in_time(const void *left, const void *right) {
    double a = ((const Edge *)left)->at, b = ((const Edge *)right)->at;
    return (a > b) - (a < b);
}

static Edge *edges_of(const StepRecord *r) {
    Edge *edges = xmalloc(sizeof *edges * (size_t)(2 * r->count + 1));
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        int device = 0;
        while (r->devices[device] != span->device) device++;
        edges[2 * i] = (Edge){span->start, device, span->communicates, 1};
        edges[2 * i + 1] = (Edge){span->end, device, span->communicates, -1};
    }
    qsort(edges, (size_t)(2 * r->count), sizeof *edges, in_time);
    return edges;
}

// Seconds of a step in which
typedef struct Shares {
    double only_first;    // device 0 is at work and no other one,
    double exchange;      // device 0's communication queue is at work,
    double under_compute; // and its compute queue, too
} Shares;

static Shares shares_of(const StepRecord *r) {
    Shares s = {0};
    int busy[MOST_RECORDED][2] = {0}, others = 0;
    double before = 0;
    Edge *edges = edges_of(r);
    for (int e = 0; e < 2 * r->count; e++) {
        const Edge *edge = &edges[e];
        double seconds = edge->at - before;
        bool first = busy[0][0] > 0 || busy[0][1] > 0;
        if (first && others == 0) s.only_first += seconds;
        if (busy[0][1] > 0) s.exchange += seconds;
        if (busy[0][1] > 0 && busy[0][0] > 0) s.under_compute += seconds;
        busy[edge->device][edge->queue] += edge->change;
        if (edge->device > 0) others += edge->change;
        before = edge->at;
    }
    free(edges);
    return s;
}

static double explain_dp(const StepRecord *r) {
    Shares s = shares_of(r);
    say("  DP: for %.0f %% of the step device 0 is at work and no other one. It computes the "
        "loss, sums the gradients that come in one device after the other, and updates.",
        100 * s.only_first / r->seconds);
    return s.only_first / r->seconds;
}

static void explain_ddp(const StepRecord *r, const char *name) {
    Shares s = shares_of(r);
    say("  %s: the exchange keeps device 0's communication queue at work for %.3g ms, and for %.0f "
        "%% of that time its compute queue is at work, too.",
        name, 1e3 * s.exchange, 100 * s.under_compute / s.exchange);
}

double draw_modelled_wrappers(int k, int rows, size_t bucket_bytes) {
    const Machine *machine = modelled_machine();
    StepRecord *steps[NUM_STEPS];
    if (!machine || !machine_has_devices(machine, k)) return NAN;
    for (int s = 0; s < NUM_STEPS; s++) {
        Way way = way_of(s, &networks[1], k, bucket_bytes);
        steps[s] = model_step(&way, k * rows, machine);
    }
    char *kind = xprintf("modelled on %s", machine->name);
    draw(steps, "_modelled.png", kind);
    write_trace(steps);
    double share = explain_dp(steps[0]);
    for (int s = 1; s < NUM_STEPS; s++) explain_ddp(steps[s], step_names[s]);
    for (int s = 0; s < NUM_STEPS; s++) step_record_free(steps[s]);
    free(kind);
    return share;
}

void draw_measured_wrappers(int k, const Tensor *X, const Tensor *y, size_t bucket_bytes) {
    StepRecord *steps[NUM_STEPS];
    for (int s = 0; s < NUM_STEPS; s++) {
        Way way = way_of(s, &networks[0], k, bucket_bytes);
        steps[s] = measure_step(&way, X, y);
    }
    draw(steps, "_measured.png", "measured here");
    for (int s = 0; s < NUM_STEPS; s++) step_record_free(steps[s]);
}
