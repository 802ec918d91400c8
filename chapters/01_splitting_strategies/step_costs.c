// step_costs.c: see step_costs.h.
#include "step_costs.h"

#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/device/timer.h"
#include "common/program/say.h"
#include "costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- counted ---------------------------------------------------------------------------------

static void add_memory(StepCosts *costs, const Spread *s) {
    for (int i = 0; i < s->k; i++) {
        double held = (double)spread_param_bytes(s, i),
               kept = (double)arena_used_bytes(s->devices[i]);
        costs->most_params = fmax(costs->most_params, held);
        costs->most_activations = fmax(costs->most_activations, kept);
        costs->all_params += held;
        costs->all_activations += kept;
    }
}

static void check_traffic(const StepCosts *costs, const Spread *s, const Problem *problem) {
    const char *name = s->strategy->name;
    double syncs = s->strategy->syncs(problem->network, s->k, problem->microbatches);
    if (costs->moved != costs->formula || costs->syncs != syncs)
        die("a bug: please report it",
            "%s, k = %d: %.0f bytes moved, %d syncs; the formulas say %.0f, %.0f", name, s->k,
            costs->moved, costs->syncs, costs->formula, syncs);
    // Within layers each device gets the whole minibatch.
    double images = (s->strategy == &within_layers ? s->k : 1) * problem_bytes(problem);
    if ((double)ledger_bytes_host() != images)
        die("a bug: please report it", "%s, k = %d: %.0f bytes from the host, not %.0f", name, s->k,
            (double)ledger_bytes_host(), images);
}

static StepCosts counted(Spread *s, const Problem *problem) {
    StepCosts costs = {.k = s->k};
    ledger_reset();
    s->strategy->gradients(s, problem->X, problem->y);
    synchronize_all();
    costs.syncs = s->syncs;
    costs.moved = (double)ledger_bytes_between_devices();
    costs.formula = s->strategy->bytes_moved(problem->network, s->k, problem->X->shape[0],
                                             problem->microbatches);
    check_traffic(&costs, s, problem);
    add_memory(&costs, s);
    return costs;
}

StepCosts step_costs(Spread *s, const Problem *problem, int steps) {
    StepCosts costs = counted(s, problem);
    bool computes = has_values(s->devices[0]), in_time = steps < 1; // else as many as asked for
    int most = !computes ? 1 : in_time ? 15 : steps;
    double fastest = INFINITY, total = 0;
    for (int i = 0; i < most; i++) {
        if (in_time && i >= 3 && total >= 2) break;
        Timer timer = {0};
        timer_start(&timer);
        problem_step(problem, s);
        costs.launching = modelled_seconds() - timer.modelled_started;
        double seconds = timer_stop(&timer);
        fastest = fmin(fastest, seconds);
        total += seconds;
        costs.modelled = timer.modelled_sum; // of each step the same
    }
    costs.measured = computes ? fastest : NAN;
    return costs;
}

// ---- who holds what --------------------------------------------------------------------------

// "all", "5-9", "5", or "-" of a layer that is elsewhere; free() it.
static char *channels(const Layer *layer, Range part) {
    if (part.count == 0) return xstrdup("-");
    if (part.count == layer->out) return xstrdup("all");
    if (part.count == 1) return xprintf("%ld", part.first);
    return xprintf("%ld-%ld", part.first, part.first + part.count - 1);
}

void print_holdings(const Spread *s, const Problem *problem) {
    const Network *network = s->network;
    printf("            MB with gradients       channels (or units) of\n"
           "  device    params activations ");
    for (int l = 0; l < network->num_layers; l++) printf(" %8s", network->layers[l].name);
    printf("\n");
    for (int i = 0; i < s->k; i++) {
        double params = (double)spread_param_bytes(s, i);
        printf("  %-8s %7.3f %11.2f ", device_name(s->devices[i]), megabytes(params),
               megabytes((double)arena_used_bytes(s->devices[i])));
        for (int l = 0; l < network->num_layers; l++) {
            char *held = channels(&network->layers[l], s->part[i][l]);
            printf(" %8s", held);
            free(held);
        }
        printf("\n");
    }
    printf("  The busiest device has %.0f%% of the work; equal parts would be %.0f%%.\n",
           100 * busiest_share(s->strategy, network, s->k, problem->X->shape[0]), 100.0 / s->k);
}

// ---- memory ----------------------------------------------------------------------------------

static void print_ks(const StepTable *t) {
    for (int j = 0; j < t->num_ks; j++) {
        char *k = xprintf("k = %d", t->ks[j]);
        printf(" %7s", k);
        free(k);
    }
}

typedef double Bytes(const StepCosts *costs);
static double most_params(const StepCosts *costs) { return costs->most_params; }
static double all_params(const StepCosts *costs) { return costs->all_params; }
static double most_activations(const StepCosts *costs) { return costs->most_activations; }
static double all_activations(const StepCosts *costs) { return costs->all_activations; }

static void print_megabytes(const StepTable *t, int i, Bytes *bytes) {
    for (int j = 0; j < t->num_ks; j++)
        if (t->of[i][j].k)
            printf(" %7.2f", megabytes(bytes(&t->of[i][j])));
        else
            printf(" %7s", "-");
}

static void print_most_and_all(const StepTable *t, const char *what, Bytes *most, Bytes *all) {
    printf("%-14s %-*s  %s\n%14s", what, 8 * t->num_ks, "most on one", "all together", "");
    print_ks(t);
    printf("  ");
    print_ks(t);
    printf("\n");
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        printf("%-14s", strategies[i]->name);
        print_megabytes(t, i, most);
        printf("  ");
        print_megabytes(t, i, all);
        printf("\n");
    }
}

// Why the three ways need different memory on one device already.
static void print_kinds(const StepTable *t, const Problem *problem) {
    printf("\nOn one device, MB      all    outputs  gradients   gathered   the rest\n");
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        Memory m = memory_of(strategies[i], problem->network, 1, problem->X->shape[0],
                             problem->microbatches);
        double all = t->of[i][0].most_activations;
        printf("%-14s   %9.2f %10.2f %10.2f %10.2f %10.2f\n", strategies[i]->name, megabytes(all),
               megabytes(m.outputs), megabytes(m.gradients), megabytes(m.copies),
               megabytes(all - m.activations));
    }
}

static double kept_by(const Layer *layer, const Problem *problem) {
    return problem->X->shape[0] * layer_kept(layer) * sizeof(float);
}

static double activations_left(const StepTable *t, int i, int j) {
    return 100 * t->of[i][j].most_activations / t->of[i][0].most_activations;
}

static void explain_memory(const StepTable *t, const Problem *problem) {
    const Network *network = problem->network;
    const Layer *most = &network->layers[0];
    int j = t->num_ks - 1;
    if (j == 0 || !t->of[0][j].k) return;
    for (int l = 1; l < network->num_layers; l++)
        if (layer_kept(&network->layers[l]) > layer_kept(most)) most = &network->layers[l];
    say("\nOn %d devices the one with the most activations has %.0f%% of those of one device "
        "across "
        "layers, %.0f%% within layers, and %.0f%% across data.",
        t->ks[j], activations_left(t, 0, j), activations_left(t, 1, j), activations_left(t, 2, j));
    say("Why do those of the pipeline hardly shrink? Of the %.1f MB on one device %s alone keeps "
        "%.1f MB, "
        "and no layer is cut in two. Within layers, every device has the gathered copies.",
        megabytes(t->of[0][0].most_activations), most->name, megabytes(kept_by(most, problem)));
}

void print_memory(const StepTable *t, const Problem *problem) {
    printf("\nWhat a step holds, MB (10^6 bytes); %d images, %d microbatches\n\n",
           problem->X->shape[0], problem->microbatches);
    print_most_and_all(t, "parameters", most_params, all_params);
    printf("\n");
    print_most_and_all(t, "activations", most_activations, all_activations);
    print_kinds(t, problem);
    explain_memory(t, problem);
}

// ---- bytes and synchronization points --------------------------------------------------------

static double for_twice(const Strategy *strategy, const Problem *problem, int k) {
    return strategy->bytes_moved(problem->network, k, 2 * problem->X->shape[0],
                                 problem->microbatches);
}

static void explain_traffic(const StepTable *t, const Problem *problem) {
    int k = t->ks[t->num_ks - 1];
    const StepCosts *within = &t->of[1][t->num_ks - 1], *data = &t->of[2][t->num_ks - 1];
    say("On %d devices, within layers %.1f times as much moves as across data; with twice the "
        "images it would be %.1f times.",
        k, within->moved / data->moved,
        for_twice(&within_layers, problem, k) / for_twice(&across_data, problem, k));
}

void print_traffic(const StepTable *t, const Problem *problem) {
    const char *last = NULL;
    printf("\nWhat moves between the devices in a step of %d images, bytes\n\n"
           "strategy        k      counted   by formula   for twice the images  syncs\n",
           problem->X->shape[0]);
    for (int i = 0; i < NUM_STRATEGIES; i++)
        for (int j = 1; j < t->num_ks; j++) {
            const StepCosts *c = &t->of[i][j];
            if (!c->k) continue;
            const char *name = strategies[i]->name;
            printf("%-13s %3d %12.0f %12.0f %22.0f %6d\n", name == last ? "" : name, c->k, c->moved,
                   c->formula, for_twice(strategies[i], problem, c->k), c->syncs);
            last = name;
        }
    printf("\n");
    explain_traffic(t, problem);
}

// ---- seconds ---------------------------------------------------------------------------------

static void print_ms(double seconds) {
    if (isnan(seconds))
        printf(" %7s", "-");
    else
        printf(seconds < 1 ? " %7.3g" : " %7.0f", 1e3 * seconds);
}

static void explain_measured(void) {
    if (num_gpus() > 0) return;
    say("Here the devices share %d core%s, all of which one device uses too: more devices cannot "
        "be "
        "much faster.",
        num_threads(), num_threads() > 1 ? "s" : "");
}

// A machine's devices may need less time for LeNet than its host needs to give them the work.
static void explain_modelled(const StepTable *t) {
    const Machine *machine = modelled_machine();
    const StepCosts *last = &t->of[NUM_STRATEGIES - 1][t->num_ks - 1];
    if (!machine) return;
    say("On %s the step across data on %d device%s takes %.3g ms. For %.3g ms of them the host "
        "launches kernels and copies, one every %.2g µs.",
        machine->name, last->k, last->k > 1 ? "s" : "", 1e3 * last->modelled, 1e3 * last->launching,
        1e6 * machine->launch);
    if (last->launching > 0.8 * last->modelled)
        say("So LeNet is too small for this machine: more devices are only more to launch.");
}

void print_seconds(const StepTable *t) {
    const Machine *machine = modelled_machine();
    bool measured = !isnan(t->of[0][0].measured);
    char *modelled = machine ? xprintf("modelled on %s", machine->name) : xstrdup("");
    printf("\nHow long a step takes, ms\n\n%14s %-*s  %s\n%14s", "", 8 * t->num_ks,
           measured ? "measured here" : "(not measured)", modelled, "");
    print_ks(t);
    printf("  ");
    if (machine) print_ks(t);
    printf("\n");
    for (int i = 0; i < NUM_STRATEGIES; i++) {
        printf("%-14s", strategies[i]->name);
        for (int j = 0; j < t->num_ks; j++) print_ms(t->of[i][j].k ? t->of[i][j].measured : NAN);
        printf("  ");
        for (int j = 0; machine && j < t->num_ks; j++)
            print_ms(t->of[i][j].k ? t->of[i][j].modelled : NAN);
        printf("\n");
    }
    printf("\n");
    if (measured) explain_measured();
    explain_modelled(t);
    free(modelled);
}
