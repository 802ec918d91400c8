// bubble.c: finds the idle share of a pipeline's devices in recorded steps, by the formula for
// equal stages, and by the times of the stages; prints and draws them.
#include "bubble.h"

#include "common/book.h"
#include "costs.h"
#include "behind/behind.h"

enum { MOST_MICROBATCHES = 8, MOST_CUTS = 4 }; // 1, 2, 4, 8

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

static void print_head(void) {
    printf("                             idle, if the stages take    idle, as\n"
           "network             k   m   equal times   their times    recorded  ms/step\n");
}

static Recorded one_bubble(const Problem *problem, int k) {
    int m = problem->microbatches;
    Recorded r = record_step(problem, &across_layers, k);
    double idle = idle_share(&r), ms = 1e3 * recorded_seconds(&r);
    char *kind = recorded_kind(&r);
    printf("%-18s %2d %3d %12.1f%% %12.1f%% %10.1f%% %8.3g\n", problem->network->name, k, m,
           100 * equal_bubble(k, m), 100 * stage_bubble(&r, m), 100 * idle, ms);
    r.title = xprintf("%s, %d devices, %d microbatch%s: %.3g ms, bubble %.0f%%; (k-1)/(m+k-1) is "
                      "%.0f%%",
                      kind, k, m, m > 1 ? "es" : "", ms, 100 * idle, 100 * equal_bubble(k, m));
    free(kind);
    return r;
}

// A line for each m = 1, 2, 4, 8 that the images suffice for. Fills in the steps, and returns how
// many there are.
static int bubbles_of(Problem problem, int k, Recorded steps[]) {
    int n = 0, images = problem.X->shape[0];
    if (!problem_fits(&problem, &across_layers, k)) return 0;
    for (int m = 1; m <= MOST_MICROBATCHES && m <= images; m *= 2) {
        problem.microbatches = m;
        steps[n++] = one_bubble(&problem, k);
    }
    return n;
}

static void explain(const char *network, const Recorded steps[], int n) {
    if (n < 2) return;
    const Recorded *first = &steps[0], *last = &steps[n - 1];
    int shortest = 0;
    for (int i = 1; i < n; i++)
        if (recorded_seconds(&steps[i]) < recorded_seconds(&steps[shortest])) shortest = i;
    say("%s: idle %.0f%% with m = 1, %.0f%% with m = %d; shortest with m = %d.", network,
        100 * idle_share(first), 100 * idle_share(last), 1 << (n - 1), 1 << shortest);
}

// Work counted is not time: how much of both the first stage has.
static void explain_first_stage(const Network *network, const Recorded *r) {
    int first[MAX_LAYERS + 1];
    double macs = 0, seconds = 0, of_first = 0;
    stages_of(network, r->k, first);
    for (int l = 0; l < first[1]; l++) macs += layer_macs(&network->layers[l]);
    for (int i = 0; i < r->k; i++) {
        double stage = busy(r, r->devices[i], "forward") + busy(r, r->devices[i], "backward");
        seconds += stage;
        if (i == 0) of_first = stage;
    }
    const char *to = first[1] > 1 ? network->layers[first[1] - 1].name : NULL;
    say("%s's first stage (%s%s%s) has %.0f%% of the mult-adds, and takes %.0f%% of the time in "
        "which devices work.",
        network->name, network->layers[0].name, to ? " to " : "", to ? to : "",
        100 * macs / network_macs(network), 100 * of_first / seconds);
}

// Both networks: the first, of equal layers, becomes the picture. Returns "their times" of the
// second with the most microbatches; NAN: it was not run.
static double table_of(const Problem *equal, const Problem *other, int k, const char *picture) {
    Recorded steps[2][MOST_CUTS];
    print_head();
    int num_equal = bubbles_of(*equal, k, steps[0]), num_other = bubbles_of(*other, k, steps[1]);
    const Recorded *last = num_other > 0 ? &steps[1][num_other - 1] : NULL;
    double idle = last ? stage_bubble(last, 1 << (num_other - 1)) : NAN;
    explain(equal->network->name, steps[0], num_equal);
    explain(other->network->name, steps[1], num_other);
    if (last) explain_first_stage(other->network, last);
    if (num_equal > 0)
        draw_steps(picture, "A pipeline of equal layers, with m microbatches", steps[0], num_equal);
    for (int i = 0; i < num_equal; i++) recorded_free(&steps[0][i]);
    for (int i = 0; i < num_other; i++) recorded_free(&steps[1][i]);
    return idle;
}

double measure_bubble(const Problem *lenet, int k, uint64_t seed) {
    Problem equal = *lenet;
    equal.network = &equal_network;
    network_init(&equal_network, equal.params, sqrt(2.0 / 512), seed); // as large behind each
    printf("\nMeasured here: the idle share of a pipeline of %d devices; %d images\n", k,
           lenet->X->shape[0]);
    double idle = table_of(&equal, lenet, k, "_bubble_measured.png");
    if (crowded(k))
        say("With more workers than cores (%d) a stage takes longer than by itself while others "
            "run: \"idle\" says little here.",
            num_threads());
    for (int p = 0; p < num_params(&equal_network); p++) tensor_free(equal.params[p]);
    return idle;
}

double model_bubble(int k) {
    enum { IMAGES = 4096, IMAGES_OF_ALEXNET = 256 };
    Problem wide = problem_to_model(&wide_network, IMAGES, 1);
    Problem alexnet = problem_to_model(&alexnet_network, IMAGES_OF_ALEXNET, 1);
    double idle = NAN;
    if (problem_fits(&wide, &across_layers, k) || problem_fits(&alexnet, &across_layers, k)) {
        say("\nModelled on %s: the idle share of a pipeline of %d devices; %d images, of AlexNet "
            "%d",
            modelled_machine_name(), k, IMAGES, IMAGES_OF_ALEXNET);
        idle = table_of(&wide, &alexnet, k, "_bubble_modelled.png");
    }
    problem_free(&wide);
    problem_free(&alexnet);
    return idle;
}
