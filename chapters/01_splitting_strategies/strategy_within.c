// strategy_within.c: within layers. Each device has some channels (or units) of every layer.
#include "spread.h"

#include "common/base/error.h"

#include <stdlib.h>

// ## Splitting the layers
//
// The parameters of a layer are cut along its output channels. Where k does not divide them, parts
// differ by one: 50 channels are 13, 13, 12 and 12.

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

static void take_columns(const Tensor *whole, Columns c, Tensor *part) {
    launch(whole->device, copy_columns, .X = whole->data + c.first, .Y = part->data,
           .rows = whole->shape[0], .cols = c.count, .X_stride = c.all, .Y_stride = c.count);
}

static Tensor *cut_columns(const Tensor *whole, Columns c) {
    Tensor *part = arena_tensor(whole->device, 2, (int[]){whole->shape[0], c.count}, false);
    take_columns(whole, c, part);
    return part;
}

// Device i has computed `parts[i]`, its channels of layer `l`. Afterwards, `whole[i]` on device i
// has all channels. A part is sent as one block, and `put_columns()` writes each image's columns to
// their place.
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

// The reduce-scatter: `grads[i]`, on device i, is one share of the gradient with respect to all
// channels of layer `l`. Afterwards `sums[i]` is the sum of all shares, for device i's channels.
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

// What flows between the layers of a step: `in[l][i]` is the whole input of layer l on device i,
// and `out[l][i]` are the channels of its output that device i computed. `in[num_layers]` are the
// scores. ResNet-18 has residual blocks, in which the input also goes past the layers and is added
// at the end: `past[l][i]` is what goes past the block that begins with layer l.
typedef struct Flow {
    Tensor *in[MAX_LAYERS + 1][MAX_DEVICES], *out[MAX_LAYERS][MAX_DEVICES];
    Tensor *past[MAX_LAYERS][MAX_DEVICES];
} Flow;

// In ResNet-18, device i's channels of a block's input, as a tensor with its own gradient, to be
// added at the end of the block. (backward_pass() adds that gradient to what the others send.)
static Tensor *goes_past(const Spread *s, int l, int i, const Tensor *whole) {
    const Layer *before = &s->network->layers[l - 1];
    const int shape[] = {whole->shape[0], (int)s->part[i][l - 1].count, before->sent_side,
                         before->sent_side};
    Tensor *part = arena_tensor(whole->device, 4, shape, true);
    take_columns(whole, columns_of(before, s->part[i][l - 1]), part);
    return part;
}

// layer_forward() for device i's channels, and what a residual block needs besides. (A 1x1 layer on
// a shortcut reads the block's input. What it computes is added at the end of the block, so it is
// not gathered, and the next layer has the same input.)
static Tensor *part_forward(const Spread *s, Flow *f, int l, int i) {
    const Network *network = s->network;
    const Layer *layer = &network->layers[l];
    int block = l; // the layer that the block begins with
    while (block > 0 && network->layers[block - 1].joined) block--;
    if (begins_block(network, l) && !network->layers[l + 1].shortcut)
        f->past[l][i] = goes_past(s, l, i, f->in[l][i]);
    Tensor *X = f->in[layer->shortcut ? block : l][i];
    Tensor *added = ends_block(network, l) ? f->past[block][i] : NULL;
    Tensor *out = layer_forward(network, l, X, added, s->params[i]);
    if (layer->shortcut) {
        f->past[block][i] = out;
        f->in[l + 1][i] = f->in[l][i];
    }
    return out;
}

// In each layer, a device computes its own channels and then gathers all of them.
static void forward_pass(Spread *s, Flow *f) {
    for (int l = 0; l < s->network->num_layers; l++) {
        spread_label("forward", s->network->layers[l].name);
        for (int i = 0; i < s->k; i++) f->out[l][i] = part_forward(s, f, l, i);
        spread_label("exchange", NULL);
        if (!s->network->layers[l].shortcut) all_gather(s, l, f->out[l], f->in[l + 1]);
    }
}

// In ResNet-18, what went past the block that begins with layer l has a gradient, too, on the
// device that computed it. (A 1x1 layer has sent its own to the block's input already.)
static void add_what_went_past(const Spread *s, const Flow *f, int l, Tensor *const sums[]) {
    if (!begins_block(s->network, l) || s->network->layers[l + 1].shortcut) return;
    for (int i = 0; i < s->k; i++) {
        const Tensor *grad = f->past[l][i]->grad;
        launch(s->devices[i], add, .y = sums[i]->data, .x = grad->data, .n = numel(grad));
    }
}

static void backward_pass(Spread *s, Flow *f) {
    int last = s->network->num_layers - 1;
    for (int l = last; l >= 0; l--) {
        const Layer *layer = &s->network->layers[l];
        if (layer->shortcut) continue; // the end of the block has seen to it
        Tensor *grads[MAX_DEVICES], *sums[MAX_DEVICES];
        for (int i = 0; i < s->k; i++) grads[i] = f->in[l + 1][i]->grad;
        spread_label("exchange", NULL);
        if (l < last)
            reduce_scatter(s, l, grads, sums);
        else // each device has the whole gradient of the scores, not a share
            for (int i = 0; i < s->k; i++)
                sums[i] = cut_columns(grads[i], columns_of(layer, s->part[i][l]));
        spread_label("backward", layer->name);
        if (l < last) add_what_went_past(s, f, l + 1, sums);
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
// Every part of a layer's output goes to the k-1 other devices, and its gradient comes back from
// them. (The scores need no such gradient.)
static double bytes_moved(const Network *network, int k, int n) {
    double numbers = 0;
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

const Strategy within_layers = {"within layers", place, gradients, bytes_moved, syncs};
