// costs_of_a_step.c: runs a step of each strategy, counts what it holds, moves and waits for, and
// prints that, and what a network's layers cost. Bytes and synchronization points must be what the
// formulas say.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

typedef struct StepCosts {
    double most_params, most_activations; // bytes on a device
    double moved, busiest_link;           // bytes between devices; into or out of one of them
    int syncs;
    double modelled; // seconds; NAN without a machine
} StepCosts;

static void check_traffic(const StepCosts *costs, const Spread *s, const Problem *problem) {
    const char *name = s->strategy->name;
    int n = problem->X->shape[0], m = problem->microbatches;
    double moved = s->strategy->bytes_moved(problem->network, s->k, n);
    double syncs = s->strategy->syncs(problem->network, s->k, m);
    if (costs->moved != moved || costs->syncs != syncs)
        die("a bug: please report it",
            "%s, k = %d: %.0f bytes moved, %d syncs; the formulas say %.0f, %.0f", name, s->k,
            costs->moved, costs->syncs, moved, syncs);
    // Within layers each device gets the whole minibatch.
    double images = (double)(tensor_bytes(problem->X) + tensor_bytes(problem->y)) *
                    (s->strategy == &within_layers ? s->k : 1);
    if ((double)ledger_bytes_host() != images)
        die("a bug: please report it", "%s, k = %d: %.0f bytes from the host, not %.0f", name, s->k,
            (double)ledger_bytes_host(), images);
}

// A link carries bytes in both directions at the same time.
static double busiest_link(const Spread *s) {
    double most = 0;
    for (int i = 0; i < s->k; i++) {
        double in = 0, out = 0;
        for (int j = 0; j < s->k; j++) {
            out += (double)ledger_bytes(s->devices[i], s->devices[j]);
            in += (double)ledger_bytes(s->devices[j], s->devices[i]);
        }
        most = fmax(most, fmax(in, out));
    }
    return most;
}

// A first step touches new memory; the second one is timed.
static StepCosts costs_of(const Strategy *strategy, const Problem *problem, int k) {
    StepCosts costs = {0};
    Spread *s = problem_spread(problem, strategy, k);
    ledger_reset();
    strategy->gradients(s, problem->X, problem->y);
    synchronize_all();
    costs.syncs = s->syncs;
    costs.moved = (double)ledger_bytes_between_devices();
    costs.busiest_link = busiest_link(s);
    check_traffic(&costs, s, problem);
    for (int i = 0; i < k; i++) {
        costs.most_params = fmax(costs.most_params, (double)spread_param_bytes(s, i));
        double kept = (double)arena_used_bytes(s->devices[i]);
        costs.most_activations = fmax(costs.most_activations, kept);
    }
    double begin = modelled_seconds();
    problem_step(problem, s);
    synchronize_all();
    costs.modelled = modelled_seconds() - begin;
    spread_close(s);
    return costs;
}

// A row of the table; returns the most activations.
static double add_row(Table *t, const char *name, const Strategy *strategy, const Problem *problem,
                      int k) {
    if (!problem_fits(problem, strategy, k)) return NAN;
    StepCosts c = costs_of(strategy, problem, k);
    table_text(t, "%s", name);
    table_numbers(t, megabytes(c.most_params), megabytes(c.most_activations), megabytes(c.moved),
                  megabytes(c.busiest_link), c.syncs,
                  busiest_share(strategy, problem->network, k, problem->X->shape[0]), c.modelled);
    return c.most_activations;
}

double show_costs(const Problem *problem, int k) {
    char *heading = xprintf("%s, k = %d", problem->network->name, k);
    double pipeline = NAN;
    printf("\n");
    Table t = TABLE(NULL, WORDS(heading, 13), FIXED("parameters", 2), FIXED("activations", 2),
                    FIXED("moved", 2), FIXED("busiest link", 2), WHOLE("syncs", .width = 5),
                    FIXED("busiest", 0, .unit = "%"),
                    DIGITS("a step", 3, .unit = "ms", .modelled = true));
    double one_device = add_row(&t, "one device", &across_data, problem, 1);
    for (int i = 0; i < NUM_STRATEGIES && k > 1; i++) {
        double activations = add_row(&t, strategies[i]->name, strategies[i], problem, k);
        if (strategies[i] == &across_layers) pipeline = activations;
    }
    free(heading);
    return pipeline / one_device;
}

// ---- the network -----------------------------------------------------------------------------

// The largest layer's share of all, in percent.
static double largest(const Network *network, double (*cost)(const Layer *)) {
    double most = 0, sum = 0;
    for (int l = 0; l < network->num_layers; l++) {
        double of_layer = cost(&network->layers[l]);
        if (of_layer > most) most = of_layer;
        sum += of_layer;
    }
    return 100 * most / sum;
}

void print_network(const Network *network) {
    double (*const costs[])(const Layer *) = {layer_params, layer_macs, layer_sent, layer_kept};
    Table t = TABLE(NULL, WORDS(network->name, 10), WHOLE("parameters"), WHOLE("mult-adds"),
                    WHOLE("passed on"), WHOLE("kept for backward"));
    printf("\n");
    for (int l = 0; l < network->num_layers; l++) {
        table_text(&t, "%s", network->layers[l].name);
        for (int i = 0; i < 4; i++) table_numbers(&t, costs[i](&network->layers[l]));
    }
    table_text(&t, "largest");
    for (int i = 0; i < 4; i++) table_text(&t, "%.0f%%", largest(network, costs[i]));
}
