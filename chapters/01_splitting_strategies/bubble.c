// bubble.c: see bubble.h.
#include "bubble.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "costs.h"
#include "step_pictures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- shares of a step ------------------------------------------------------------------------

static double busy(const Recorded *r, const Device *device, const char *kind) {
    double seconds = 0;
    for (int i = 0; i < r->count; i++)
        if (r->spans[i].device == device && span_is(&r->spans[i], kind))
            seconds += r->spans[i].end - r->spans[i].start;
    return seconds;
}

double idle_share(const Recorded *r) {
    double first = INFINITY, last = 0, work = 0;
    for (int i = 0; i < r->count; i++) {
        const TraceSpan *span = &r->spans[i];
        if (!span_is(span, "forward") && !span_is(span, "backward")) continue;
        first = fmin(first, span->start);
        last = fmax(last, span->end);
    }
    for (int i = 0; i < r->k; i++)
        work += busy(r, r->devices[i], "forward") + busy(r, r->devices[i], "backward");
    return 1 - work / (r->k * (last - first));
}

double equal_bubble(int k, int m) { return (double)(k - 1) / (m + k - 1); }

double stage_bubble(const Recorded *r, int m) {
    double work = 0, time = 0;
    for (int way = 0; way < 2; way++) {
        double all = 0, slowest = 0; // seconds per microbatch
        for (int i = 0; i < r->k; i++) {
            double stage = busy(r, r->devices[i], way ? "backward" : "forward") / m;
            all += stage;
            slowest = fmax(slowest, stage);
        }
        work += m * all;
        time += all + (m - 1) * slowest;
    }
    return 1 - work / (r->k * time);
}

// ---- the table -------------------------------------------------------------------------------

static Recorded measure_bubble(const Problem *problem, int k) {
    int m = problem->microbatches;
    Recorded r = record_step(problem, &across_layers, k);
    double idle = idle_share(&r), ms = 1e3 * recorded_seconds(&r);
    printf("  %-20s %2d %13d %14.0f%% %13.0f%% %9.0f%% %8.1f\n", problem->network->name, k, m,
           100 * equal_bubble(k, m), 100 * stage_bubble(&r, m), 100 * idle, ms);
    r.title = xprintf("%d microbatch%s: %.1f ms, idle %.0f%%; (k-1)/(m+k-1) is %.0f%%", m,
                      m > 1 ? "es" : "", ms, 100 * idle, 100 * equal_bubble(k, m));
    return r;
}

// The lines of a network on k devices; with `draw_it`, also as a picture.
static void measure_bubbles(Problem problem, int k, bool draw_it) {
    Recorded steps[4];
    int n = 0, images = problem.X->shape[0];
    for (int m = 1; m <= 8 && m <= images; m *= 2) {
        problem.microbatches = m;
        steps[n++] = measure_bubble(&problem, k);
    }
    if (draw_it) {
        char *heading = xprintf("A pipeline of %d devices, %s, %d images, cut into m microbatches",
                                k, problem.network->name, images);
        draw_steps("_bubble.png", heading, steps, n);
        free(heading);
    }
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
}

void show_bubble(const Problem *lenet, const int ks[], int num_ks, uint64_t seed) {
    Problem equal = *lenet;
    bool drawn = false, note = false;
    equal.network = &equal_network;
    network_init(equal.network, equal.params, sqrt(2.0 / 512), seed); // activations keep their size
    printf("\nThe bubble: the share of the time in which a pipeline's devices are idle\n"
           "  network               k  microbatches   equal stages  these stages  measured  "
           "ms/step\n");
    for (int i = num_ks - 1; i > 0; i--) {
        bool draw_it = !drawn && (!crowded(ks[i]) || i == 1);
        if (ks[i] <= network_pieces(equal.network)) measure_bubbles(equal, ks[i], draw_it);
        if (ks[i] <= network_pieces(lenet->network)) measure_bubbles(*lenet, ks[i], false);
        drawn = drawn || draw_it;
        note = note || crowded(ks[i]);
    }
    if (note)
        say("With more workers than cores (%d) a stage takes longer than by itself while others "
            "run: \"measured\" says little where there are more devices than cores.",
            num_threads());
    printf("\n");
    for (int p = 0; p < num_params(equal.network); p++) tensor_free(equal.params[p]);
}
