// strategy_data.c: across data. Each device has the whole network and some rows of the minibatch.
#include "costs.h"

// ## Splitting the data
//
// Every device holds all layers. The copies start equal and get the same sums, so they stay equal.

static void place(Spread *s) {
    for (int i = 0; i < s->k; i++)
        for (int l = 0; l < s->network->num_layers; l++)
            s->part[i][l] = (Range){0, s->network->layers[l].out};
}

// Every device has a copy of the whole network and some rows of the minibatch, its *shard*. It runs
// the forward and backward passes on them as if it were alone. The host only enqueues this work, so
// the devices work at the same time.
void shard_gradients(Spread *s, const Tensor *X, const Tensor *y) {
    Range all_layers = {0, s->network->num_layers};
    spread_begin(s, s->k);
    for (int i = 0; i < s->k; i++) {
        Range rows = equal_range(X->shape[0], s->k, i);
        // Labels first: behind the images, they would wait for the next device's images, too.
        Tensor *y_shard = spread_rows(s, i, y, rows), *X_shard = spread_rows(s, i, X, rows);
        spread_label("forward", NULL);
        Tensor *scores = layers_forward(s->network, all_layers, X_shard, s->params[i]);
        s->losses[i] = sum(cross_entropy(scores, y_shard));
        spread_label("backward", NULL);
        backward(s->losses[i]);
    }
}

// Then the gradients are summed. Device 0 receives them from the others, adds them up and sends the
// sums back. It always adds in the same order, so the sums are bit-identical in every run.
static void sum_gradients(Spread *s) {
    Event ready[MAX_DEVICES];
    for (int i = 0; i < s->k; i++) ready[i] = device_record(s->devices[i]);
    for (int p = 0; p < num_params(s->network); p++) {
        Tensor *sum_here = s->params[0][p]->grad;
        Tensor *received = arena_tensor(s->devices[0], sum_here->ndim, sum_here->shape, false);
        for (int i = 1; i < s->k; i++) { // device 0 has added one when the next one arrives
            spread_send(s, i, ready[i], 0, received, s->params[i][p]->grad);
            launch(s->devices[0], add, .y = sum_here->data, .x = received->data,
                   .n = numel(received));
        }
    }
    ready[0] = device_record(s->devices[0]);
    for (int p = 0; p < num_params(s->network); p++)
        for (int i = 1; i < s->k; i++)
            spread_send(s, 0, ready[0], i, s->params[i][p]->grad, s->params[0][p]->grad);
    s->syncs++; // one collective: an allreduce
}

static void gradients(Spread *s, const Tensor *X, const Tensor *y) {
    shard_gradients(s, X, y);
    spread_label("exchange", NULL);
    if (s->k > 1) sum_gradients(s);
    spread_settle(s);
}

// ## What it costs
//
// All gradients go from k-1 devices to device 0, and their sums go back. The size of the minibatch
// does not matter.
static double bytes_moved(const Network *network, int k, int n) {
    (void)n;
    return 2.0 * (k - 1) * network_params(network) * sizeof(float);
}

static double syncs(const Network *network, int k, int m) {
    (void)network;
    (void)m;
    return k > 1;
}

const Strategy across_data = {"across data", place, gradients, bytes_moved, syncs};
