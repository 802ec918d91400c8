// costs.c: what a strategy costs, by formulas that need nothing except the shapes of the layers.
#include "costs.h"

#include "common/book.h"

// ---- stages ----------------------------------------------------------------------------------

int network_pieces(const Network *network) {
    int pieces = 0;
    for (int l = 0; l < network->num_layers; l++) pieces += !network->layers[l].joined;
    return pieces;
}

// (A strategy may be a copy of one of the three, with other gradients().)
static bool is(const Strategy *strategy, const Strategy *way) {
    return strategy->place == way->place;
}

int most_devices(const Strategy *strategy, const Network *network) {
    return is(strategy, &across_layers) ? network_pieces(network) : MAX_DEVICES;
}

// For each number of stages and each place to cut, the best that the layers before that place can
// do: the largest stage, and where its last stage begins. Each line of the table comes from the one
// before it.
double stages_of(const Network *network, int k, int first[]) {
    int n = network->num_layers, begin[MAX_LAYERS + 1][MAX_LAYERS + 1];
    double best[MAX_LAYERS + 1][MAX_LAYERS + 1]; // [stages][layers]
    CHECK(k >= 1 && k <= network_pieces(network), "a stage has at least one layer");
    for (int l = 0; l <= n; l++) best[0][l] = l == 0 ? 0 : INFINITY;
    for (int stages = 1; stages <= k; stages++)
        for (int end = 0; end <= n; end++) {
            double work = 0;
            best[stages][end] = INFINITY;
            for (int l = end - 1; l >= 0; l--) {
                work += layer_macs(&network->layers[l]);
                bool can_cut = l == 0 || !network->layers[l - 1].joined;
                double largest = fmax(work, best[stages - 1][l]);
                if (!can_cut || largest >= best[stages][end]) continue;
                best[stages][end] = largest;
                begin[stages][end] = l;
            }
        }
    first[k] = n;
    for (int stages = k; stages > 0; stages--) first[stages - 1] = begin[stages][first[stages]];
    return best[k][n];
}

// ---- memory and work -------------------------------------------------------------------------

static double larger_part(int n, int k) { return equal_range(n, k, 0).count; }

// Of a device with some layers, or, within layers, with the larger part of the channels of each,
// and all channels after each gather. What comes from other devices is kept with its gradient.
// Backward, the gradients of two operations exist at a time: each is kept until it has been passed
// on. In a pipeline, all rows have gone forward before the first goes back, so the outputs of all
// are kept. But only the rows that go through `at_once` have gradients.
static Memory device_memory(const Network *network, int first, int end, int within_k, int rows,
                            int at_once) {
    double image = (double)network->channels * network->side * network->side;
    double kept = first == 0 ? image : 2 * layer_sent(&network->layers[first - 1]);
    double params = 0, gradients = 0;
    for (int l = first; l < end; l++) {
        const Layer *layer = &network->layers[l];
        double share = within_k ? larger_part(layer->out, within_k) / layer->out : 1;
        params += 2 * layer_params(layer) * share;
        kept += layer_kept(layer) * share + (within_k ? 2 * layer_sent(layer) : 0);
        gradients = fmax(gradients, 2 * share * layer->out * layer->side * layer->side);
    }
    double activations = rows * kept + at_once * gradients;
    return (Memory){params * sizeof(float), activations * sizeof(float),
                    (params + activations) * sizeof(float)};
}

Memory memory_of(const Strategy *strategy, const Network *network, int k, int n, int m) {
    int first[MAX_LAYERS + 1], all = network->num_layers, rows = (int)larger_part(n, k);
    if (is(strategy, &within_layers)) return device_memory(network, 0, all, k, n, n);
    if (is(strategy, &across_data)) return device_memory(network, 0, all, 0, rows, rows);
    Memory most = {0};
    stages_of(network, k, first);
    for (int i = 0; i < k; i++) {
        Memory stage = device_memory(network, first[i], first[i + 1], 0, n, (int)larger_part(n, m));
        most.params = fmax(most.params, stage.params);
        most.activations = fmax(most.activations, stage.activations);
        most.both = fmax(most.both, stage.both);
    }
    return most;
}

double busiest_share(const Strategy *strategy, const Network *network, int k, int n) {
    int first[MAX_LAYERS + 1];
    double most = 0;
    if (is(strategy, &across_data)) return larger_part(n, k) / n;
    if (is(strategy, &across_layers)) return stages_of(network, k, first) / network_macs(network);
    for (int l = 0; l < network->num_layers; l++) {
        const Layer *layer = &network->layers[l];
        most += layer_macs(layer) * larger_part(layer->out, k) / layer->out;
    }
    return most / network_macs(network);
}
