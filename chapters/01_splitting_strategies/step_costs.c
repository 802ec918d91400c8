// step_costs.c: see step_costs.h.
#include "step_costs.h"

#include "common/base/error.h"
#include "common/device/modelled_clock.h"
#include "common/device/timer.h"
#include "common/program/say.h"
#include "costs.h"

#include <math.h>
#include <stdio.h>

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

StepCosts step_costs(const Spread *s, const Problem *problem) {
    const Strategy *strategy = s->strategy;
    int n = problem->X->shape[0], m = problem->microbatches;
    StepCosts costs = {.strategy = strategy, .k = s->k, .syncs = s->syncs};
    costs.moved = (double)ledger_bytes_between_devices();
    costs.from_host = (double)ledger_bytes_host();
    costs.formula = strategy->bytes_moved(problem->network, s->k, n, m);
    double syncs = strategy->syncs(problem->network, s->k, m);
    if (costs.moved != costs.formula || costs.syncs != syncs)
        die("a bug: please report it",
            "%s, k = %d: %.0f bytes moved, %d syncs; the formulas say %.0f, %.0f", strategy->name,
            s->k, costs.moved, costs.syncs, costs.formula, syncs);
    int copies = strategy == &within_layers ? s->k : 1;
    if (costs.from_host != copies * problem_bytes(problem))
        die("a bug: please report it", "%s, k = %d: %.0f bytes from the host, not %.0f",
            strategy->name, s->k, costs.from_host, copies * problem_bytes(problem));
    add_memory(&costs, s);
    return costs;
}

void time_steps(StepCosts *costs, Spread *s, const Problem *problem, int steps) {
    bool computes = has_values(s->devices[0]), in_time = steps < 1; // else as many as asked for
    int most = !computes ? 1 : in_time ? 15 : steps;
    double fastest = INFINITY, total = 0;
    for (int i = 0; i < most; i++) {
        if (in_time && i >= 3 && total >= 2) break;
        Timer timer = {0};
        timer_start(&timer);
        problem_step(problem, s);
        costs->launching = modelled_seconds() - timer.modelled_started;
        double seconds = timer_stop(&timer);
        fastest = fmin(fastest, seconds);
        total += seconds;
        costs->modelled = timer.modelled_sum;
    }
    costs->measured = computes ? fastest : NAN;
}

// ---- printed ---------------------------------------------------------------------------------

void print_holdings(const Spread *s) {
    for (int i = 0; i < s->k; i++) {
        printf("    %s %.3f + %.2f MB:", device_name(s->devices[i]),
               megabytes((double)spread_param_bytes(s, i)),
               megabytes((double)arena_used_bytes(s->devices[i])));
        const char *comma = " ";
        for (int l = 0; l < s->network->num_layers; l++) {
            Range part = s->part[i][l];
            const Layer *layer = &s->network->layers[l];
            if (part.count == 0) continue;
            printf("%s%s", comma, layer->name);
            if (part.count < layer->out)
                printf("[%ld..%ld]", part.first, part.first + part.count - 1);
            comma = ", ";
        }
        printf("\n");
    }
}

static void print_ms(double seconds) {
    if (isnan(seconds))
        printf(" %8s", "-");
    else
        printf(" %8.3g", 1e3 * seconds);
}

void print_step_costs(const StepCosts costs[], int n, const Problem *problem) {
    printf("One step, %d images (MB = 10^6 bytes, gradients included; %d microbatches)\n",
           problem->X->shape[0], problem->microbatches);
    printf("                  most on one device    all together      bytes between devices"
           "             ms/step\n"
           "strategy       k  params  activations  params  activ.     counted     formula"
           "  syncs measured modelled\n");
    for (int i = 0; i < n; i++) {
        const StepCosts *c = &costs[i];
        printf("%-13s %2d %7.2f %12.2f %7.2f %7.2f %11.0f %11.0f %6d",
               c->k == costs[0].k ? c->strategy->name : "", c->k, megabytes(c->most_params),
               megabytes(c->most_activations), megabytes(c->all_params),
               megabytes(c->all_activations), c->moved, c->formula, c->syncs);
        print_ms(c->measured);
        print_ms(c->modelled);
        printf("\n");
    }
}

static void explain_measured(void) {
    if (num_gpus() > 0) return;
    say("Measured: the devices are workers that share %d core%s, all of which one device uses too. "
        "So more devices cannot be much faster; on a busy machine these times mean little.",
        num_threads(), num_threads() > 1 ? "s" : "");
}

// A machine's devices may need less time for LeNet than its host needs to give them the work.
static void explain_modelled(const StepCosts costs[], int n) {
    const Machine *machine = modelled_machine();
    const StepCosts *last = &costs[n - 1];
    if (!machine) return;
    say("Modelled: what the same work takes on %s, where the devices share nothing but links and "
        "their host. Across data on %d device%s a step takes %.3g ms; for %.3g ms of them a host "
        "enqueues kernels and copies for its devices, one every %.2g µs.",
        machine->name, last->k, last->k > 1 ? "s" : "", 1e3 * last->modelled, 1e3 * last->launching,
        1e6 * machine->launch);
    if (last->launching > 0.8 * last->modelled)
        say("So that is what the time is spent on, and more devices are only more to launch: LeNet "
            "is too small for this machine. Below, it has a larger network.");
}

void explain_step_costs(const StepCosts costs[], int n, const Problem *problem) {
    say("From the host came the minibatch, %.0f bytes; within layers, to each device. Syncs: an "
        "allreduce, an all-gather, a reduce-scatter is one; across layers, each transfer.",
        problem_bytes(problem));
    if (!isnan(costs[0].measured)) explain_measured();
    explain_modelled(costs, n);
    printf("\n");
}
