// costs_of_a_step.c: runs a step of each strategy, counts what it holds, moves and waits for, and
// prints that, and what a network's layers cost. Bytes and synchronization points must be what the
// formulas say.
#include "behind.h"

#include "common/book.h"
#include "../costs.h"

static void check_traffic(const Spread *s, const Problem *problem) {
    const char *name = s->strategy->name;
    int n = problem->X->shape[0], m = problem->microbatches;
    double moved = (double)ledger_bytes_between_devices(), from_host = (double)ledger_bytes_host();
    double moved_formula = s->strategy->bytes_moved(problem->network, s->k, n);
    double syncs_formula = s->strategy->syncs(problem->network, s->k, m);
    if (moved != moved_formula || s->syncs != syncs_formula)
        die("a bug: please report it",
            "%s, k = %d: %.0f bytes moved, %d syncs; the formulas say %.0f, %.0f", name, s->k,
            moved, s->syncs, moved_formula, syncs_formula);
    // Within layers each device gets the whole minibatch.
    double images = (double)(tensor_bytes(problem->X) + tensor_bytes(problem->y)) *
                    (s->strategy == &within_layers ? s->k : 1);
    if (from_host != images)
        die("a bug: please report it", "%s, k = %d: %.0f bytes from the host, not %.0f", name, s->k,
            from_host, images);
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

// A row of the table; returns the most activations. A first step touches new memory; the second one
// is timed.
static double add_row(Table *t, const char *name, const Strategy *strategy, const Problem *problem,
                      int k) {
    if (!problem_fits(problem, strategy, k)) return NAN;
    double params = 0, activations = 0; // bytes on a device
    Spread *s = problem_spread(problem, strategy, k);
    ledger_reset();
    strategy->gradients(s, problem->X, problem->y);
    synchronize_all();
    check_traffic(s, problem);
    for (int i = 0; i < k; i++) {
        params = fmax(params, (double)spread_param_bytes(s, i));
        activations = fmax(activations, (double)arena_used_bytes(s->devices[i]));
    }
    table_text(t, "%s", name);
    table_numbers(t, megabytes(params), megabytes(activations),
                  megabytes((double)ledger_bytes_between_devices()), megabytes(busiest_link(s)),
                  s->syncs, busiest_share(strategy, problem->network, k, problem->X->shape[0]));
    table_numbers(t, problem_step(problem, s));
    spread_close(s);
    return activations;
}

double show_costs(const Problem *problem, int k) {
    char *heading = xprintf("%s, k = %d", problem->network->name, k);
    double pipeline = NAN;
    printf("\n");
    Table t =
        TABLE(NULL, WORDS(heading, 13), FIXED("parameters", 2), FIXED("activations", 2),
              FIXED("moved", 2), FIXED("busiest link", 2), WHOLE("syncs", .width = 5),
              FIXED("work", 0, .unit = "%"), DIGITS("a step", 3, .unit = "ms", .modelled = true));
    double one_device = add_row(&t, "one device", &across_data, problem, 1);
    for (int i = 0; i < NUM_STRATEGIES && k > 1; i++) {
        double activations = add_row(&t, strategies[i]->name, strategies[i], problem, k);
        if (strategies[i] == &across_layers) pipeline = activations;
    }
    free(heading);
    return pipeline / one_device;
}

// ---- the network -----------------------------------------------------------------------------

void print_network(const Network *network) {
    double (*const costs[])(const Layer *) = {layer_params, layer_macs, layer_sent, layer_kept};
    double largest[4] = {0}, sum[4] = {0};
    Table t = TABLE(NULL, WORDS(network->name, 10), WHOLE("parameters"), WHOLE("mult-adds"),
                    WHOLE("passed on"), WHOLE("kept for backward"));
    printf("\n");
    for (int l = 0; l < network->num_layers; l++) {
        table_text(&t, "%s", network->layers[l].name);
        for (int i = 0; i < 4; i++) {
            double cost = costs[i](&network->layers[l]);
            table_numbers(&t, cost);
            largest[i] = fmax(largest[i], cost);
            sum[i] += cost;
        }
    }
    table_text(&t, "largest");
    for (int i = 0; i < 4; i++) table_text(&t, "%.0f%%", 100 * largest[i] / sum[i]);
}
