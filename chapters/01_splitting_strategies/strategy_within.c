// strategy_within.c: within layers. Each device has some channels (or units) of every layer.
#include "spread.h"

#include "common/base/error.h"

#include <stdlib.h>
#include <string.h>

// ## Splitting the layers
//
// Of a convolution with 64 channels, each of 4 devices computes 16; of a fully connected layer,
// each computes a part of the units. AlexNet was trained much like this in 2012, because one GPU
// did not have memory enough for it (its two GPUs exchanged channels at some of the layers only).
// The parameters of a layer are cut along its output channels. Where k does not divide them, parts
// differ by one: 50 channels are 13, 13, 12 and 12.
//
// But each channel of a layer needs *all* channels of the layer before it. So after each layer
// every device sends its channels to every other one; the field calls this an all-gather. Backward,
// each device has a gradient for all its inputs, but only the share that came through its own
// channels. The shares are summed, each channel on the device where it was computed: a
// reduce-scatter. The scores are gathered, too, and each device computes the loss, all of them the
// same one, so that nothing need be sent back there.
//
// All devices get the whole minibatch.

static void place(Spread *s) {
    for (int i = 0; i < s->k; i++)
        for (int l = 0; l < s->network->num_layers; l++)
            s->part[i][l] = equal_range(s->network->layers[l].out, s->k, i);
}

// In a matrix with a row for each image, the channels of a part are some neighbouring columns.
typedef struct Columns {
    int first, count, all;
} Columns;

static Columns columns_of(const Layer *l, Range part) {
    int each = l->sent_side * l->sent_side;
    return (Columns){(int)part.first * each, (int)part.count * each, l->out * each};
}

static void put_columns(Tensor *whole, Columns c, const Tensor *part) {
    launch(whole->device, copy_columns, .X = part->data, .Y = whole->data + c.first,
           .rows = whole->shape[0], .cols = c.count, .X_stride = c.count, .Y_stride = c.all);
}

static Tensor *cut_columns(const Tensor *whole, Columns c) {
    int n = whole->shape[0];
    Tensor *part = arena_tensor(whole->device, 2, (int[]){n, c.count}, false);
    launch(whole->device, copy_columns, .X = whole->data + c.first, .Y = part->data, .rows = n,
           .cols = c.count, .X_stride = c.all, .Y_stride = c.count);
    return part;
}

// ## All-gather
//
// Each device has computed some channels of layer `l`; afterwards `whole[i]` is all of them on
// device i, with a gradient, to be filled by what is computed from it. Between devices a part goes
// as one block; a kernel puts it in its place in each image.
static void all_gather(Spread *s, int l, Tensor *const parts[], Tensor *whole[]) {
    const Layer *layer = &s->network->layers[l];
    int n = parts[0]->shape[0], side = layer->sent_side;
    Event ready[MAX_DEVICES];
    for (int i = 0; i < s->k; i++) ready[i] = device_record(s->devices[i]);
    for (int to = 0; to < s->k; to++) {
        const int shape[] = {n, layer->out, side, side}; // (n,units) for a fully connected layer
        whole[to] = arena_tensor(s->devices[to], layer->kind == CONV ? 4 : 2, shape, true);
        for (int from = 0; from < s->k; from++) {
            Tensor *block = parts[from];
            if (from != to) {
                block = arena_tensor(s->devices[to], parts[from]->ndim, parts[from]->shape, false);
                spread_send(s, from, ready[from], to, block, parts[from]);
            }
            put_columns(whole[to], columns_of(layer, s->part[from][l]), block);
        }
    }
    s->syncs += s->k > 1;
}

// ## Reduce-scatter
//
// `grads[i]` on device i is one share of the gradient with respect to all channels of layer `l`;
// afterwards `sums[i]` is the sum of all shares, for the channels that device i computed.
static void reduce_scatter(Spread *s, int l, Tensor *const grads[], Tensor *sums[]) {
    Tensor **shares = xmalloc(sizeof *shares * (size_t)(s->k * s->k)); // [from * k + to]
    Event ready[MAX_DEVICES];
    for (int from = 0; from < s->k; from++) {
        for (int to = 0; to < s->k; to++)
            shares[from * s->k + to] =
                cut_columns(grads[from], columns_of(&s->network->layers[l], s->part[to][l]));
        ready[from] = device_record(s->devices[from]);
    }
    for (int to = 0; to < s->k; to++) {
        sums[to] = shares[to * s->k + to];
        for (int from = 0; from < s->k; from++) {
            if (from == to) continue;
            Tensor *block = arena_tensor(s->devices[to], 2, sums[to]->shape, false);
            spread_send(s, from, ready[from], to, block, shares[from * s->k + to]);
            launch(s->devices[to], add, .y = sums[to]->data, .x = block->data, .n = numel(block));
        }
    }
    free(shares);
    s->syncs += s->k > 1;
}

// ## A step
//
// This is what flows between the layers of one step: `in[l][i]` is the whole input of layer l on
// device i, `out[l][i]` the channels of its output that device i computed; `in[num_layers]` are the
// scores. ResNet-18 has residual blocks, in which the input also goes past the layers and is added
// at the end. Where a block begins with layer l, `past[l][i]` is what goes past it, in the channels
// of device i. LeNet has no such blocks: a first reader can leave out what is about them.
typedef struct Flow {
    Tensor *in[MAX_LAYERS + 1][MAX_DEVICES], *out[MAX_LAYERS][MAX_DEVICES];
    Tensor *past[MAX_LAYERS][MAX_DEVICES];
} Flow;

// The channels of the block's input that device i computed itself: with a gradient of its own,
// which backward_pass() adds to what the other devices send.
static Tensor *goes_past(const Spread *s, int l, int i, const Tensor *whole) {
    const Layer *before = &s->network->layers[l - 1];
    const int shape[] = {whole->shape[0], (int)s->part[i][l - 1].count, before->sent_side,
                         before->sent_side};
    Columns c = columns_of(before, s->part[i][l - 1]);
    Tensor *part = arena_tensor(whole->device, 4, shape, true);
    launch(whole->device, copy_columns, .X = whole->data + c.first, .Y = part->data,
           .rows = shape[0], .cols = c.count, .X_stride = c.all, .Y_stride = c.count);
    return part;
}

// A layer of a shortcut (1x1) reads the input of its block, and is not gathered: what it computes
// stays where it is, to be added at the end of the block.
static void forward_pass(Spread *s, Flow *f) {
    const Network *network = s->network;
    int block = 0; // the layer that the residual block begins with
    for (int l = 0; l < network->num_layers; l++) {
        const Layer *layer = &network->layers[l];
        if (begins_block(network, l)) block = l;
        spread_label("forward", layer->name);
        bool ends = ends_block(network, l);
        for (int i = 0; i < s->k; i++) {
            if (begins_block(network, l) && !network->layers[l + 1].shortcut)
                f->past[l][i] = goes_past(s, l, i, f->in[l][i]);
            f->out[l][i] = layer_forward(network, l, f->in[layer->shortcut ? block : l][i],
                                         ends ? f->past[block][i] : NULL, s->params[i]);
            if (layer->shortcut) f->past[block][i] = f->out[l][i];
        }
        spread_label("exchange", NULL);
        if (layer->shortcut)
            memcpy(f->in[l + 1], f->in[l], sizeof f->in[l]);
        else
            all_gather(s, l, f->out[l], f->in[l + 1]);
    }
}

// What went past the block that begins with layer l has a gradient, too, on the device that
// computed it. (That through a 1x1 layer has come to the block's input already.)
static void add_what_went_past(const Spread *s, const Flow *f, int l, Tensor *const sums[]) {
    if (!begins_block(s->network, l) || s->network->layers[l + 1].shortcut) return;
    for (int i = 0; i < s->k; i++) {
        const Tensor *grad = f->past[l][i]->grad;
        launch(s->devices[i], add, .y = sums[i]->data, .x = grad->data, .n = numel(grad));
    }
}

static void backward_pass(Spread *s, Flow *f) {
    for (int l = s->network->num_layers - 1; l >= 0; l--) {
        const Layer *layer = &s->network->layers[l];
        if (layer->shortcut) continue; // the end of the block has seen to it
        Tensor *grads[MAX_DEVICES], *sums[MAX_DEVICES];
        for (int i = 0; i < s->k; i++) grads[i] = f->in[l + 1][i]->grad;
        spread_label("exchange", NULL);
        if (l < s->network->num_layers - 1)
            reduce_scatter(s, l, grads, sums);
        else // of the scores each device has the whole gradient, not a share
            for (int i = 0; i < s->k; i++)
                sums[i] = cut_columns(grads[i], columns_of(layer, s->part[i][l]));
        spread_label("backward", layer->name);
        if (l < s->network->num_layers - 1) add_what_went_past(s, f, l + 1, sums);
        for (int i = 0; i < s->k; i++) {
            Tensor *out = f->out[l][i];
            backward_from(out, arena_view(sums[i], out->ndim, out->shape));
        }
    }
}

static void gradients(Spread *s, const Tensor *X, const Tensor *y) {
    Flow *f = xmalloc(sizeof *f);
    Tensor *labels[MAX_DEVICES], *losses[MAX_DEVICES];
    Range all_rows = {0, X->shape[0]};
    spread_begin(s, 1);
    spread_label("load", NULL);
    for (int i = 0; i < s->k; i++) {
        f->in[0][i] = spread_rows(s, i, X, all_rows);
        labels[i] = spread_rows(s, i, y, all_rows);
    }
    forward_pass(s, f);
    spread_label("forward", "loss");
    for (int i = 0; i < s->k; i++)
        losses[i] = sum(cross_entropy(f->in[s->network->num_layers][i], labels[i]));
    spread_label("backward", "loss");
    for (int i = 0; i < s->k; i++) backward(losses[i]);
    backward_pass(s, f);
    spread_settle(s);
    s->losses[0] = losses[0]; // all have the same
    free(f);
}

// ## What it costs
//
// Of each layer every part goes to the k-1 other devices, and its gradient comes back from them;
// but not that of the scores.
static double bytes_moved(const Network *network, int k, int n, int m) {
    double numbers = 0;
    (void)m;
    for (int l = 0; l < network->num_layers; l++)
        numbers += (l < network->num_layers - 1 ? 2 : 1) * layer_sent(&network->layers[l]);
    return (k - 1) * numbers * n * sizeof(float);
}

static double syncs(const Network *network, int k, int m) {
    int senders = 0;
    (void)m;
    for (int l = 0; l < network->num_layers; l++) senders += layer_sent(&network->layers[l]) > 0;
    return k > 1 ? 2.0 * senders - 1 : 0;
}

static int most_devices(const Network *network) {
    (void)network;
    return MAX_DEVICES; // more devices than channels: some have none
}

const Strategy within_layers = {
    .name = "within layers",
    .book = "layer-wise parallelism",
    .place = place,
    .gradients = gradients,
    .bytes_moved = bytes_moved,
    .syncs = syncs,
    .most_devices = most_devices,
};
