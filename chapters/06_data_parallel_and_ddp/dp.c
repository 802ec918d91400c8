// dp.c: DataParallel. To users it is one line, `net = nn.DataParallel(net)`; this is what happens
// in each step behind it.
//
//     scatter     0 ──▶ 1, 2, ..   the rows of the minibatch
//     replicate   0 ──▶ 1, 2, ..   all parameters and buffers
//     forward     all
//     gather      1, 2, .. ──▶ 0   the outputs
//     loss        0 alone, and its gradient by the outputs
//     scatter     0 ──▶ 1, 2, ..   the gradients of their outputs
//     backward    all
//     reduce      1, 2, .. ──▶ 0   all gradients, and device 0 sums them
//     update      0 alone
//
// All devices go forward *and* backward. What device 0 does alone is the rest.
#include "dp.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "common/tensor/functional.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>

const char *const dp_phase_names[NUM_DP_PHASES] = {
    "scatter inputs",    "replicate", "forward",          "gather", "loss",
    "scatter gradients", "backward",  "reduce gradients", "update"};

static const char *const labels[NUM_DP_PHASES] = {
    "exchange inputs",  "exchange parameters", "forward",
    "exchange outputs", "forward loss",        "exchange gradients",
    "backward",         "exchange gradients",  "update"};

Dp *dp_new(Module *net, Device *const devices[], int k, DpGathers gathers) {
    Dp *dp = xcalloc(1, sizeof *dp);
    *dp = (Dp){.net = net, .k = k, .gathers = gathers};
    dp->devices = xmalloc(sizeof *devices * (size_t)k);
    memcpy(dp->devices, devices, sizeof *devices * (size_t)k);
    share_cores(devices, k);
    for (int i = 0; i < k; i++) place_on(net, devices[i]);
    set_training(net, true);
    return dp;
}

void dp_free(Dp *dp) {
    free(dp->devices);
    free(dp);
}

// ## What flows in a step

typedef struct Flow {
    const Tensor *X_host, *y_host; // the minibatch
    int n;                         // its rows
    float lr;
    const Range *shards;
    Tensor *X, *y;                                         // on device 0
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES]; // on device i
    Tensor *Y[MAX_DEVICES];                                // outputs, or losses, of device i
    Tensor *gathered, *loss;                               // on device 0
} Flow;

// Where rows_on() takes rows from a tensor, this copies into some.
static void receive_rows(Tensor *t, Range rows, const Tensor *from) {
    device_copy(t->device, rows_of(t, rows).data, from->device, from->data, tensor_bytes(from));
}

// ## Scatter and replicate
//
// The minibatch is on device 0, where the program has put it; each device gets its rows. (The
// labels are needed where the loss is computed.) Then all get the parameters that device 0 has: the
// update of the step before was made there alone. Their running statistics come from there, too, so
// what the others' batch norms saw is lost in each step: only device 0's are kept.
//
// Here device 0 copies to one device after the other, and receives gradients like that. PyTorch
// does so only where there is no NCCL; with it, it broadcasts and reduces.

static void scatter(Dp *dp, Flow *f) {
    Range all = {0, f->n};
    trace_label("load");
    f->X = rows_on(f->X_host, all, dp->devices[0]);
    f->y = rows_on(f->y_host, all, dp->devices[0]);
    trace_label(labels[DP_SCATTER]);
    for (int i = 0; i < dp->k; i++) {
        f->X_shards[i] = rows_on(f->X, f->shards[i], dp->devices[i]);
        if (dp->gathers != DP_OUTPUTS) f->y_shards[i] = rows_on(f->y, f->shards[i], dp->devices[i]);
    }
}

static void replicate(Dp *dp) {
    FlatParameters from = flat_parameters(dp->net, dp->devices[0]);
    for (int i = 1; i < dp->k; i++) {
        FlatParameters to = flat_parameters(dp->net, dp->devices[i]);
        tensor_copy(to.data, from.data);
        tensor_copy(to.buffers, from.buffers);
        tensor_fill(to.grad, 0); // a new replica has no gradients
    }
}

// ## Forward, gather, loss

static void go_forward(Dp *dp, Flow *f) {
    forward_all(dp->net, f->X_shards, dp->k, f->Y);
    if (dp->gathers == DP_OUTPUTS) return;
    for (int i = 0; i < dp->k; i++) f->Y[i] = sum(cross_entropy(f->Y[i], f->y_shards[i]));
}

// What is gathered is the input of what device 0 computes alone, so it has a gradient.
static void gather(Dp *dp, Flow *f) {
    bool outputs = dp->gathers == DP_OUTPUTS;
    int rows = outputs ? f->n : dp->k, classes = outputs ? f->Y[0]->shape[1] : 1;
    f->gathered = arena_tensor(dp->devices[0], 2, (int[]){rows, classes}, outputs);
    for (int i = 0; i < dp->k; i++)
        receive_rows(f->gathered, outputs ? f->shards[i] : (Range){i, 1}, f->Y[i]);
}

// By how much the sum of a shard's losses counts in the loss of the minibatch, which is a sum, too.
// A mean of means counts a row of a small shard more than one of a large shard.
static float weight_of(const Dp *dp, const Flow *f, int i) {
    if (dp->gathers == DP_SUMMED_LOSSES || f->shards[i].count == 0) return 1;
    return (float)f->n / ((float)dp->k * (float)f->shards[i].count);
}

static void compute_loss(Dp *dp, Flow *f) {
    Device *first = dp->devices[0];
    if (dp->gathers == DP_OUTPUTS) {
        f->loss = sum(cross_entropy(f->gathered, f->y));
        backward(f->loss); // as far as f->gathered: that is where it began
        return;
    }
    f->loss = arena_tensor(first, 1, (int[]){1}, false);
    tensor_fill(f->loss, 0);
    for (int i = 0; i < dp->k; i++) {
        float *loss = f->gathered->data + i;
        launch(first, scale, .x = loss, .factor = weight_of(dp, f, i), .n = 1);
        launch(first, add, .y = f->loss->data, .x = loss, .n = 1);
    }
}

// ## Backward
//
// Each device gets the gradient of what it sent, and goes back from there. PyTorch has a thread for
// each device here, so that one need not wait until the host has launched all the work of another;
// the modelled clock is told so. (Forward is Python, in which such threads take turns.)

static Tensor *gradient_of(const Dp *dp, const Flow *f, int i) {
    Device *device = dp->devices[i];
    if (dp->gathers == DP_OUTPUTS) return rows_on(f->gathered->grad, f->shards[i], device);
    // 1, or the shard's weight: device 0 fills it in, and sends it.
    Tensor *weight = arena_tensor(dp->devices[0], 1, (int[]){1}, false);
    tensor_fill(weight, weight_of(dp, f, i));
    return rows_on(weight, (Range){0, 1}, device);
}

static void scatter_gradients(Dp *dp, Flow *f, Tensor *dY[]) {
    for (int i = 0; i < dp->k; i++) dY[i] = gradient_of(dp, f, i);
}

static void go_backward(Dp *dp, Flow *f, Tensor *const dY[]) {
    modelled_clock_use_ranks(true);
    for (int i = 0; i < dp->k; i++) backward_from(f->Y[i], dY[i]);
    modelled_clock_use_ranks(false);
}

// ## Reduce and update
//
// A sum, in the order of the devices; nothing divides. In our programs the update does.

static void reduce(Dp *dp) {
    Tensor *sum = flat_parameters(dp->net, dp->devices[0]).grad;
    if (dp->k == 1) return;
    Tensor *received = arena_tensor(dp->devices[0], 1, sum->shape, false); // of one after the other
    for (int i = 1; i < dp->k; i++) {
        Tensor *grad = flat_parameters(dp->net, dp->devices[i]).grad;
        tensor_copy(received, grad);
        launch(dp->devices[0], add, .y = sum->data, .x = received->data, .n = numel(sum));
    }
}

// ## A step

static void run_phase(Dp *dp, DpPhase phase, Flow *f, Tensor *dY[]) {
    trace_label(labels[phase]);
    switch (phase) {
    case DP_SCATTER:
        scatter(dp, f);
        break;
    case DP_REPLICATE:
        replicate(dp);
        break;
    case DP_FORWARD:
        go_forward(dp, f);
        break;
    case DP_GATHER:
        gather(dp, f);
        break;
    case DP_LOSS:
        compute_loss(dp, f);
        break;
    case DP_SCATTER_GRADS:
        scatter_gradients(dp, f, dY);
        break;
    case DP_BACKWARD:
        go_backward(dp, f, dY);
        break;
    case DP_REDUCE:
        reduce(dp);
        break;
    case DP_UPDATE:
        sgd_step(dp->net, dp->devices[0], f->lr, f->n);
        break;
    case NUM_DP_PHASES:
        break;
    }
    if (dp->phase_ends) dp->phase_ends(dp, phase, dp->context);
}

Tensor *dp_step(Dp *dp, const Tensor *X, const Tensor *y, const Range *shards, float lr) {
    Flow *f = xcalloc(1, sizeof *f);
    Range equal[MAX_DEVICES];
    Tensor *dY[MAX_DEVICES];
    f->X_host = X;
    f->y_host = y;
    f->n = X->shape[0];
    f->lr = lr;
    f->shards = shards ? shards : equal;
    for (int i = 0; i < dp->k; i++) {
        equal[i] = equal_range(f->n, dp->k, i);
        begin_step(dp->devices[i]);
    }
    for (DpPhase phase = 0; phase < NUM_DP_PHASES; phase++) run_phase(dp, phase, f, dY);
    Tensor *loss = f->loss;
    free(f);
    return loss;
}

// ## Bytes by the formulas
//
// P bytes of parameters, B of buffers, n rows, device i with n_i of them. Device 0's own rows stay
// where they are.

static Traffic from_first(int i, size_t own, size_t others) {
    return i == 0 ? (Traffic){.sent = others} : (Traffic){.received = own};
}

static Traffic to_first(int i, size_t own, size_t others) {
    return i == 0 ? (Traffic){.received = others} : (Traffic){.sent = own};
}

Traffic dp_phase_bytes(const Dp *dp, DpPhase phase, int i, int n, size_t row, size_t classes) {
    size_t mine = (size_t)equal_range(n, dp->k, i).count;
    size_t theirs = (size_t)n - (size_t)equal_range(n, dp->k, 0).count, k = (size_t)dp->k;
    size_t P = parameter_bytes(dp->net), B = buffer_bytes(dp->net), f = sizeof(float);
    bool outputs = dp->gathers == DP_OUTPUTS;
    if (!outputs && phase == DP_SCATTER) row++; // with its label
    size_t gathered = outputs ? mine * classes * f : f;
    size_t of_others = outputs ? theirs * classes * f : (k - 1) * f;
    switch (phase) {
    case DP_SCATTER:
        return from_first(i, mine * row * f, theirs * row * f);
    case DP_REPLICATE:
        return from_first(i, P + B, (k - 1) * (P + B));
    case DP_GATHER:
        return to_first(i, gathered, of_others);
    case DP_SCATTER_GRADS:
        return from_first(i, gathered, of_others);
    case DP_REDUCE:
        return to_first(i, P, (k - 1) * P);
    default:
        return (Traffic){0, 0};
    }
}
