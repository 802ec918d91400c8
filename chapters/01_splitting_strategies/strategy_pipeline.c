// strategy_pipeline.c: across layers. Each device has some of the layers, and passes on what they
// compute.
#include "costs.h"

#include "common/book.h"

// ## Splitting the network
//
// The first layers are on device 0, the next ones on device 1, and so on. The largest of these
// stages has as little work as possible.

static void place(Spread *s) {
    int first[MAX_LAYERS + 1];
    stages_of(s->network, s->k, first);
    for (int i = 0; i < s->k; i++)
        for (int l = first[i]; l < first[i + 1]; l++)
            s->part[i][l] = (Range){0, s->network->layers[l].out};
}

// One microbatch at one stage: its input and its output.
typedef struct Passage {
    Tensor *in, *out;
} Passage;

// Receives what the stage before has computed. The tensor has a gradient, in which the backward
// pass will leave what is to be sent back.
static Tensor *receive(Spread *s, int i, const Tensor *sent) {
    spread_label("exchange", NULL);
    Tensor *in = arena_tensor(s->devices[i], sent->ndim, sent->shape, true);
    spread_send(s, i - 1, device_record(s->devices[i - 1]), i, in, sent);
    s->syncs++;
    return in;
}

static void label_microbatch(const char *what, int j) {
    char number[16];
    snprintf(number, sizeof number, "%d", j + 1);
    spread_label(what, number);
}

static Tensor *stage_forward(const Spread *s, int i, int j, Tensor *X) {
    label_microbatch("forward", j);
    Range stage = {0, 0};
    while (!s->part[i][stage.first].count) stage.first++;
    while (stage.first + stage.count < s->network->num_layers &&
           s->part[i][stage.first + stage.count].count)
        stage.count++;
    return layers_forward(s->network, stage, X, s->params[i]);
}

// Microbatch j goes forward through all stages. The first stage loads the images, and the last one
// loads the labels. Each later stage gets its input from the previous one.
static void microbatch_forward(Spread *s, int j, const Tensor *X, const Tensor *y, Passage *at) {
    Range rows = equal_range(X->shape[0], s->microbatches, j);
    for (int i = 0; i < s->k; i++) {
        at[i].in = i == 0 ? spread_rows(s, 0, X, rows) : receive(s, i, at[i - 1].out);
        Tensor *labels = i == s->k - 1 ? spread_rows(s, i, y, rows) : NULL;
        at[i].out = stage_forward(s, i, j, at[i].in);
        if (labels) s->losses[j] = sum(cross_entropy(at[i].out, labels));
    }
}

// Sends the gradient of stage i+1's input back to stage i.
static Tensor *send_back(Spread *s, int i, const Passage *at) {
    spread_label("exchange", NULL);
    Tensor *dY = arena_tensor(s->devices[i], at[i].out->ndim, at[i].out->shape, false);
    spread_send(s, i + 1, device_record(s->devices[i + 1]), i, dY, at[i + 1].in->grad);
    s->syncs++;
    return dY;
}

// Then it goes backward through the stages. Each stage sends the gradient of its input
// to the previous stage, which continues from there.
static void microbatch_backward(Spread *s, int j, Passage *at) {
    label_microbatch("backward", j);
    backward(s->losses[j]);
    for (int i = s->k - 2; i >= 0; i--) {
        Tensor *dY = send_back(s, i, at);
        label_microbatch("backward", j);
        backward_from(at[i].out, dY);
    }
}

// The host enqueues one microbatch after the other, each through all stages. They overlap by
// themselves, because the queue of a device waits for its inputs and for nothing else.
static void gradients(Spread *s, const Tensor *X, const Tensor *y) {
    int m = s->microbatches;
    Passage *at = xmalloc(sizeof(Passage) * (size_t)(m * s->k));
    spread_begin(s, m);
    for (int j = 0; j < m; j++) microbatch_forward(s, j, X, y, at + j * s->k);
    for (int j = m - 1; j >= 0; j--) microbatch_backward(s, j, at + j * s->k);
    spread_settle(s);
    free(at);
}

// ## What it costs
//
// Activations cross each boundary between two stages, and their gradients cross it on the way back.
// The number of microbatches does not change these bytes, but it multiplies the synchronization
// points.
static double bytes_moved(const Network *network, int k, int n) {
    int first[MAX_LAYERS + 1];
    double numbers = 0;
    stages_of(network, k, first);
    for (int i = 1; i < k; i++) numbers += layer_sent(&network->layers[first[i] - 1]);
    return 2 * numbers * n * sizeof(float);
}

static double syncs(const Network *network, int k, int m) {
    (void)network;
    return 2.0 * (k - 1) * m;
}

const Strategy across_layers = {"across layers", place, gradients, bytes_moved, syncs};
