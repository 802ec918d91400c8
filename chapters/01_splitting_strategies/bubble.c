// bubble.c: see bubble.h.
#include "bubble.h"

#include "common/base/error.h"
#include "common/device/modelled_clock.h"
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

static Recorded one_bubble(const Problem *problem, int k) {
    int m = problem->microbatches;
    Recorded r = problem->only_time ? record_modelled(problem, &across_layers, k)
                                    : record_step(problem, &across_layers, k);
    double idle = idle_share(&r), ms = 1e3 * recorded_seconds(&r);
    char *kind = recorded_kind(&r);
    printf("  %-20s %2d %13d %14.1f%% %13.1f%% %9.1f%% %8.3g\n", problem->network->name, k, m,
           100 * equal_bubble(k, m), 100 * stage_bubble(&r, m), 100 * idle, ms);
    r.title = xprintf("%s, %d devices, %d microbatch%s: %.3g ms, bubble %.0f%%; (k-1)/(m+k-1) is "
                      "%.0f%%",
                      kind, k, m, m > 1 ? "es" : "", ms, 100 * idle, 100 * equal_bubble(k, m));
    free(kind);
    return r;
}

// The lines of a network on k devices: m = 1, 2, 4, 8. Adds the steps to `steps` and returns how
// many there are then; NULL: forgets them.
static int bubbles_of(Problem problem, int k, Recorded *steps, int n) {
    int images = problem.X->shape[0];
    if (k > network_pieces(problem.network)) return n;
    if (problem.only_time && !problem_can_be_modelled(&problem, &across_layers, k)) return n;
    for (int m = 1; m <= 8 && m <= images; m *= 2) {
        problem.microbatches = m;
        Recorded r = one_bubble(&problem, k);
        if (steps)
            steps[n++] = r;
        else
            recorded_free(&r);
    }
    return n;
}

static void print_head(const char *kind) {
    printf("  %s\n"
           "  network               k  microbatches   equal stages  these stages      idle  "
           "ms/step\n",
           kind);
}

// Of these networks on ks[i] devices, beginning with the largest. The steps that a picture shows
// are those of the first network, on the most devices that do not crowd the cores.
static int table_of(const Problem problems[2], const int ks[], int num_ks, Recorded *steps, int n) {
    bool kept = false, crowds = false;
    for (int i = num_ks - 1; i > 0; i--) {
        bool in_the_way = !problems[0].only_time && crowded(ks[i]);
        bool keep = !kept && (!in_the_way || i == 1);
        if (keep)
            n = bubbles_of(problems[0], ks[i], steps, n);
        else
            bubbles_of(problems[0], ks[i], NULL, 0);
        bubbles_of(problems[1], ks[i], NULL, 0);
        kept = kept || keep;
        crowds = crowds || in_the_way;
    }
    if (crowds)
        say("  With more workers than cores (%d) a stage takes longer than by itself while others "
            "run: \"idle\" says little where there are more devices than cores.",
            num_threads());
    return n;
}

static int measured_table(const Problem *lenet, const int ks[], int num_ks, uint64_t seed,
                          Recorded steps[]) {
    Problem problems[] = {*lenet, *lenet};
    if (!has_values(try_gpu(0))) return 0;
    problems[0].network = &equal_network;
    network_init(&equal_network, problems[0].params, sqrt(2.0 / 512), seed); // as large behind each
    char *kind = xprintf("measured here; %d images", lenet->X->shape[0]);
    print_head(kind);
    free(kind);
    int n = table_of(problems, ks, num_ks, steps, 0);
    for (int p = 0; p < num_params(&equal_network); p++) tensor_free(problems[0].params[p]);
    return n;
}

static int modelled_table(const Problem *alexnet, const int ks[], int num_ks, Recorded steps[],
                          int n) {
    enum { IMAGES = 4096 };
    if (!modelled_machine()) return n;
    Problem problems[] = {problem_to_model(&wide_network, IMAGES, 1), *alexnet};
    char *kind = xprintf("modelled on %s; %d images, of AlexNet %d", modelled_machine()->name,
                         IMAGES, alexnet->X->shape[0]);
    print_head(kind);
    n = table_of(problems, ks, num_ks, steps, n);
    problem_free(&problems[0]);
    free(kind);
    return n;
}

static void draw_bubble(const Recorded steps[], int n, int most_devices) {
    bool fewer = !steps[0].modelled && steps[0].k < most_devices;
    char *why = fewer ? xprintf(" (measured on %d devices: %d would share too few cores)",
                                steps[0].k, most_devices)
                      : xstrdup("");
    char *heading =
        xprintf("A pipeline of equal layers, its minibatch cut into m microbatches%s", why);
    draw_steps("_bubble.png", heading, steps, n);
    free(heading);
    free(why);
}

void show_bubble(const Problem *lenet, const Problem *alexnet, const int ks[], int num_ks,
                 uint64_t seed) {
    Recorded steps[2 * 4];
    printf("\nThe bubble: the share of the time in which a pipeline's devices are idle\n");
    int n = measured_table(lenet, ks, num_ks, seed, steps);
    n = modelled_table(alexnet, ks, num_ks, steps, n);
    if (n > 0) draw_bubble(steps, n, ks[num_ks - 1]);
    for (int i = 0; i < n; i++) recorded_free(&steps[i]);
    printf("\n");
}
