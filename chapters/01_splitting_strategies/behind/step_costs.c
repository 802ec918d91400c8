// step_costs.c: runs the steps of a strategy on k = 1, 2, 4 devices. It counts what they hold, move
// and wait for, compares that with the formulas, and takes their time.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

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

static StepCosts count_costs(Spread *s, const Problem *problem) {
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

// After a first step, which touches new memory, times `steps` more; -1: at most 15, and as many as
// fit into two seconds. If the devices compute nothing, one is enough.
static StepCosts step_costs(Spread *s, const Problem *problem, int steps, bool computes) {
    StepCosts costs = count_costs(s, problem);
    bool in_time = steps < 1; // else as many as asked for
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

static void print_holdings(const Spread *s, const Problem *problem) {
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

// ---- all ks ----------------------------------------------------------------------------------

static void run_on(StepTable *t, int i, int j, const Problem *problem, const Reference *r) {
    int k = t->ks[j];
    Spread *s = problem_spread(problem, strategies[i], k);
    if (r) {
        double difference = check_same_step(s, problem, r);
        printf("  %d device%s the same loss, gradients and loss after one update", k,
               k > 1 ? "s:" : ": ");
        printf(difference > 0 ? ", to %.0e\n" : ", exactly\n", difference);
    }
    t->of[i][j] = step_costs(s, problem, t->steps, r != NULL);
    if (j > 0 && j == t->num_ks - 1) print_holdings(s, problem);
    spread_close(s);
}

void run_strategy(const Strategy *strategy, StepTable *t, const Problem *problem,
                  const Reference *r) {
    int i = 0, most = strategy->most_devices(problem->network);
    while (strategies[i] != strategy) i++;
    printf("\nSplitting %s (the book's \"%s\")\n", strategy->name, strategy->book);
    for (int j = 0; j < t->num_ks; j++)
        if (t->ks[j] <= most)
            run_on(t, i, j, problem, r);
        else
            printf("  %d devices: there are only %d layers\n", t->ks[j],
                   problem->network->num_layers);
}
