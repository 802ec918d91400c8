// spread.c: what the three strategies have in common: placing parameters, sending, updating.
#include "spread.h"

#include "common/book.h"
#include "costs.h"

const Strategy *const strategies[NUM_STRATEGIES] = {&across_data, &across_layers, &within_layers};

// What device i holds of parameter p.
static Range part_of_param(const Spread *s, int i, int p) {
    return s->part[i][layer_of_param(s->network, p)];
}

Spread *spread_open(const Network *network, Tensor *const params[], const Strategy *strategy,
                    Device *const devices[], int k, int microbatches) {
    CHECK(k >= 1 && k <= most_devices(strategy, network), "no more devices than there are parts");
    CHECK(microbatches >= 1, "a minibatch is at least one microbatch");
    Spread *s = xcalloc(1, sizeof *s);
    s->network = network;
    s->strategy = strategy;
    s->k = k;
    s->microbatches = microbatches;
    memcpy(s->devices, devices, sizeof(Device *) * (size_t)k);
    s->arrived = xcalloc((size_t)k * (size_t)k, sizeof *s->arrived);
    strategy->place(s);
    for (int i = 0; i < k; i++)
        for (int p = 0; p < num_params(network); p++) {
            s->params[i][p] = param_part(params[p], part_of_param(s, i, p), devices[i]);
            attach_grad(s->params[i][p]);
        }
    return s;
}

void spread_close(Spread *s) {
    for (int i = 0; i < s->k; i++)
        for (int p = 0; p < num_params(s->network); p++) tensor_free(s->params[i][p]);
    free(s->arrived);
    free(s->losses);
    free(s);
}

void spread_update(Spread *s, float lr, int n) {
    trace_label("update");
    for (int i = 0; i < s->k; i++)
        for (int p = 0; p < num_params(s->network); p++)
            if (numel(s->params[i][p])) sgd(&s->params[i][p], 1, lr, n);
}

void spread_step(Spread *s, const Tensor *X, const Tensor *y, float lr) {
    s->strategy->gradients(s, X, y);
    spread_update(s, lr, X->shape[0]);
}

// ---- what came out ---------------------------------------------------------------------------

double spread_loss(const Spread *s) {
    double loss = 0;
    for (int i = 0; i < s->num_losses; i++) loss += (double)item(s->losses[i]);
    return loss;
}

float *spread_grad(const Spread *s, int p, const Tensor *whole) {
    float *values = xcalloc(numel(whole), sizeof(float)), *piece = xmalloc(tensor_bytes(whole));
    for (int i = 0; i < s->k; i++) { // where all hold it, all hold the same
        tensor_read(s->params[i][p]->grad, piece);
        put_part(values, whole, part_of_param(s, i, p), piece);
    }
    free(piece);
    return values;
}

size_t spread_param_bytes(const Spread *s, int i) {
    size_t bytes = 0;
    for (int p = 0; p < num_params(s->network); p++) bytes += 2 * tensor_bytes(s->params[i][p]);
    return bytes;
}

// ---- for the strategies ----------------------------------------------------------------------

void spread_begin(Spread *s, int num_losses) {
    for (int i = 0; i < s->k; i++) begin_step(s->devices[i]);
    s->losses = xgrow(s->losses, (size_t)num_losses, sizeof *s->losses);
    s->num_losses = num_losses;
    s->syncs = 0;
}

// Rows are the first dimension and lie one behind the other, so some rows are one run of memory.
Tensor *spread_rows(const Spread *s, int i, const Tensor *t, Range rows) {
    bool are_images = t->ndim == 4;
    spread_label("load", NULL);
    int shape[MAX_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    size_t row = numel(t) / (size_t)shape[0];
    shape[0] = (int)rows.count;
    Tensor *here =
        arena_tensor(s->devices[i], t->ndim, shape, are_images && s->network->image_grad);
    device_copy(s->devices[i], here->data, t->device, t->data + (size_t)rows.first * row,
                tensor_bytes(here));
    return here;
}

void spread_send(Spread *s, int from, Event ready, int to, Tensor *dst, const Tensor *src) {
    CHECK(same_shape(dst, src), "what is sent has the shape of what is received");
    s->arrived[from * s->k + to] =
        device_copy_after(ready, s->devices[to], dst->data, src->data, tensor_bytes(src));
}

void spread_settle(Spread *s) {
    for (int i = 0; i < s->k * s->k; i++) {
        Event *arrived = &s->arrived[i];
        if (arrived->ticket) device_wait(s->devices[i / s->k], *arrived);
        arrived->ticket = 0;
    }
}

void spread_label(const char *what, const char *detail) {
    char text[64];
    snprintf(text, sizeof text, "%s%s%s", what, detail ? " " : "", detail ? detail : "");
    trace_label(text);
}
