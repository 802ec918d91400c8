// dp.c: DataParallel: what happens in each step behind `net = nn.DataParallel(net)`.
#include "dp.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "common/tensor/functional.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>

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

// What one step passes from phase to phase.
typedef struct Flow {
    Tensor *X, *y; // the minibatch, on device 0
    int n;         // its rows
    Range shards[MAX_DEVICES];
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES]; // on device i
    Tensor *Y[MAX_DEVICES],
        *dY[MAX_DEVICES];    // outputs (or losses) of device i, and their gradients
    Tensor *gathered, *loss; // on device 0
} Flow;

// ## Scatter and replicate
//
// Each device gets its rows of the minibatch. (Labels are needed where the loss is computed.)
//
// Then all get the parameters and buffers (running statistics) of device 0. What the other devices'
// batch norms saw is lost in each step.

static void scatter(Dp *dp, Flow *f) {
    for (int i = 0; i < dp->k; i++) {
        f->X_shards[i] = rows_on(f->X, f->shards[i], dp->devices[i]);
        if (dp->gathers != DP_OUTPUTS) f->y_shards[i] = rows_on(f->y, f->shards[i], dp->devices[i]);
    }
}

// A broadcast as NCCL's: the devices are a chain, and each passes a piece on while it receives the
// next one. (NCCL's pieces are smaller than our 4 MiB.)
static void broadcast(Tensor *const data[], int k) {
    Event last[MAX_DEVICES], first = device_record(data[0]->device);
    for (int p = 0; p < num_pieces(data[0]); p++) {
        Range piece = piece_of(data[0], p);
        Event arrived = first;
        for (int i = 1; i < k; i++)
            last[i] = arrived =
                device_copy_after(arrived, data[i]->device, part_data(data[i], piece),
                                  part_data(data[i - 1], piece), piece.count * sizeof(float));
    }
    // A device has sent everything when the next one has it.
    for (int i = 1; i < k && num_pieces(data[0]) > 0; i++)
        device_wait(data[i - 1]->device, last[i]);
}

static void replicate(Dp *dp) {
    Tensor *params[MAX_DEVICES], *buffers[MAX_DEVICES];
    for (int i = 0; i < dp->k; i++) {
        FlatParameters replica = flat_parameters(dp->net, dp->devices[i]);
        params[i] = replica.data;
        buffers[i] = replica.buffers;
        if (i > 0) tensor_fill(replica.grad, 0); // a new replica has no gradients
    }
    broadcast(params, dp->k);
    broadcast(buffers, dp->k);
}

// ## Forward, gather, loss, and backward
//
// With the loss inside forward, a device's output is the sum of the losses of its rows.

static void go_forward(Dp *dp, Flow *f) {
    forward_all(dp->net, f->X_shards, dp->k, f->Y);
    if (dp->gathers == DP_OUTPUTS) return;
    for (int i = 0; i < dp->k; i++) f->Y[i] = sum(cross_entropy(f->Y[i], f->y_shards[i]));
}

// Which rows of what is gathered come from device i.
static Range rows_from(const Dp *dp, const Flow *f, int i) {
    return dp->gathers == DP_OUTPUTS ? f->shards[i] : (Range){i, 1};
}

// What is gathered is the input of what device 0 computes alone, so it has a gradient.
static void gather(Dp *dp, Flow *f) {
    bool outputs = dp->gathers == DP_OUTPUTS;
    const int shape[] = {outputs ? f->n : dp->k, f->Y[0]->shape[f->Y[0]->ndim - 1]};
    f->gathered = arena_tensor(dp->devices[0], outputs ? 2 : 1, shape, true);
    for (int i = 0; i < dp->k; i++)
        device_copy(dp->devices[0], rows_of(f->gathered, rows_from(dp, f, i)).data, dp->devices[i],
                    f->Y[i]->data, tensor_bytes(f->Y[i]));
}

// By how much the sum of a shard's losses counts in the loss of the minibatch, which is a sum, too.
// A mean of means counts a row of a small shard more than one of a large shard.
static float weight_of(const Dp *dp, const Flow *f, int i) {
    if (dp->gathers == DP_SUMMED_LOSSES || f->shards[i].count == 0) return 1;
    return (float)f->n / ((float)dp->k * (float)f->shards[i].count);
}

static void compute_loss(Dp *dp, Flow *f) {
    if (dp->gathers == DP_OUTPUTS)
        f->loss = sum(cross_entropy(f->gathered, f->y));
    else {
        const int row[] = {1, dp->k}, column[] = {dp->k, 1};
        Tensor *weights = arena_tensor(dp->devices[0], 2, row, false);
        for (int i = 0; i < dp->k; i++)
            launch(dp->devices[0], fill, .x = weights->data + i, .value = weight_of(dp, f, i),
                   .n = 1);
        f->loss = sum(mm(weights, reshape_to(f->gathered, 2, column)));
    }
    backward(f->loss); // ends at f->gathered, where the tape of this loss began
}

// Each device gets the gradient of what it sent, and goes back from there. PyTorch has a thread for
// each device here, so none waits until the host has launched the work of another one. (Forward is
// Python, whose threads take turns.)
static void scatter_gradients(Dp *dp, Flow *f) {
    for (int i = 0; i < dp->k; i++)
        f->dY[i] = rows_on(f->gathered->grad, rows_from(dp, f, i), dp->devices[i]);
}

static void go_backward(Dp *dp, Flow *f) {
    modelled_clock_use_ranks(true);
    for (int i = 0; i < dp->k; i++) backward_from(f->Y[i], f->dY[i]);
    modelled_clock_use_ranks(false);
}

// ## Reduce and update
//
// The chain once more, in the other direction: each device adds what it receives to its own
// gradients and passes the sum on. Nothing divides here. In our programs the update does.

static void reduce(Dp *dp) {
    Tensor *grads[MAX_DEVICES], *places[MAX_DEVICES];
    int k = dp->k;
    for (int i = 0; i < k; i++) {
        grads[i] = flat_parameters(dp->net, dp->devices[i]).grad;
        if (i < k - 1) places[i] = place_to_receive(grads[i]);
    }
    Event complete = device_record(grads[k - 1]->device);
    for (int p = 0; p < num_pieces(grads[0]); p++) {
        Event summed = complete;
        for (int i = k - 2; i >= 0; i--) {
            receive_and_add(grads[i], grads[i + 1], summed, piece_of(grads[0], p), places[i]);
            summed = device_record(grads[i]->device);
        }
    }
    for (int i = 0; i < k - 1; i++)
        device_wait(grads[i + 1]->device, device_record(grads[i]->device));
}

// ## A step

Tensor *dp_step(Dp *dp, const Tensor *X, const Tensor *y, float lr) {
    Flow f = {.n = X->shape[0]};
    for (int i = 0; i < dp->k; i++) {
        f.shards[i] = equal_range(f.n, dp->k, i);
        begin_step(dp->devices[i]);
    }
    trace_label("load");
    f.X = rows_on(X, (Range){0, f.n}, dp->devices[0]);
    f.y = rows_on(y, (Range){0, f.n}, dp->devices[0]);
    trace_label("exchange inputs");
    scatter(dp, &f);
    trace_label("exchange parameters");
    replicate(dp);
    trace_label("forward");
    go_forward(dp, &f);
    trace_label("exchange outputs");
    gather(dp, &f);
    trace_label("forward loss");
    compute_loss(dp, &f);
    trace_label("exchange gradients");
    scatter_gradients(dp, &f);
    trace_label("backward");
    go_backward(dp, &f);
    trace_label("exchange gradients");
    reduce(dp);
    trace_label("update");
    sgd_step(dp->net, dp->devices[0], lr, f.n);
    return f.loss;
}

// ## The formula
//
// Parameters and buffers pass all devices in one direction, gradients in the other. Rows of X,
// outputs (or losses) and their gradients go between device 0 and each other device.

Traffic dp_bytes(const Dp *dp, int i, int n, size_t row, size_t classes) {
    bool outputs = dp->gathers == DP_OUTPUTS, is_first = i == 0, is_last = i == dp->k - 1;
    long own = equal_range(n, dp->k, i).count;
    size_t rows = (size_t)(is_first ? n - own : own), others = is_first ? (size_t)dp->k - 1 : 1;
    size_t in = rows * (outputs ? row : row + 1), out = outputs ? rows * classes : others;
    size_t P = parameter_bytes(dp->net) / sizeof(float), B = buffer_bytes(dp->net) / sizeof(float);
    size_t sent = (is_first ? in + out : out) + (is_last ? 0 : P + B) + (is_first ? 0 : P);
    size_t received = (is_first ? out : in + out) + (is_first ? 0 : P + B) + (is_last ? 0 : P);
    return (Traffic){.sent = sent * sizeof(float), .received = received * sizeof(float)};
}
