// layers.c: computes the layers that network.c lists, whole or in part.
#include "../network.h"

#include "common/book.h"
#include "common/tensor/batch_norm.h"

int num_params(const Network *network) {
    int n = 2 * network->num_layers;
    for (int l = 0; l < network->num_layers; l++) n += network->layers[l].norm;
    return n;
}

int layer_of_param(const Network *network, int p) {
    int behind = 2 * network->num_layers; // the weights of the normalizations
    return p < behind ? p / 2 : p - behind;
}

static Tensor *named(Tensor *t, char letter, int layer) {
    static char names[3][MAX_LAYERS][16];
    char *name = names[letter == 'W' ? 0 : letter == 'b' ? 1 : 2][layer];
    snprintf(name, sizeof names[0][0], "%c%d", letter, layer + 1);
    t->name = name;
    return t;
}

void network_shapes(const Network *network, Tensor *params[]) {
    int n = network->num_layers;
    for (int i = 0; i < n; i++) {
        const Layer *l = &network->layers[i];
        CHECK(!l->norm || 2 * n + i < num_params(network), "layers that normalize come first");
        Tensor *W = l->kind == CONV ? tensor_new(host(), l->out, l->in, l->kernel, l->kernel)
                                    : tensor_new(host(), l->in, l->out); // as the book stores it
        params[2 * i] = named(W, 'W', i);
        params[2 * i + 1] = named(tensor_new(host(), l->out), 'b', i);
        if (l->norm) params[2 * n + i] = named(tensor_new(host(), l->out), 'g', i);
    }
}

void network_init(const Network *network, Tensor *params[], double scale, uint64_t seed) {
    network_shapes(network, params);
    for (int i = 0; i < network->num_layers; i++) {
        Tensor *W = params[2 * i];
        fill_normal(W->data, numel(W), scale, seed, STREAM_PARAMS + 2 * (uint32_t)i);
        tensor_fill(params[2 * i + 1], 0);
    }
    for (int p = 2 * network->num_layers; p < num_params(network); p++) tensor_fill(params[p], 1);
}

// With the mean and the variance of the rows that this device has. (The running statistics, which
// only evaluation needs, are forgotten.)
static Tensor *normalized(Tensor *X, Tensor *weight, Tensor *bias) {
    Tensor *mean = arena_tensor(X->device, 1, bias->shape, false);
    Tensor *var = arena_tensor(X->device, 1, bias->shape, false);
    tensor_fill(mean, 0);
    tensor_fill(var, 1);
    return batch_norm(X, (BatchNormTensors){weight, bias, mean, var},
                      (BatchNormOptions){.training = true, .momentum = 0.1f, .eps = 1e-5f});
}

Tensor *layer_forward(const Network *network, int l, Tensor *X, Tensor *shortcut,
                      Tensor *const params[]) {
    const Layer *layer = &network->layers[l];
    Tensor *W = params[2 * l], *b = params[2 * l + 1], *Y;
    if (layer->kind == LINEAR) {
        Y = add_bias(mm(reshape(X, X->shape[0], -1), W), b);
        return layer->ops == 3 ? relu(Y) : Y; // mostly not the last, whose outputs are the scores
    }
    Y = conv2d(X, W, layer->norm ? NULL : b, .stride = layer->stride, .padding = layer->padding);
    if (layer->norm) Y = normalized(Y, params[2 * network->num_layers + l], b);
    if (layer->shortcut) return Y;
    if (shortcut) Y = add(Y, shortcut);
    Y = relu(Y);
    // Means of windows side by side. (The two larger networks take the largest instead, of windows
    // that overlap: as many pixels come out, and memory is read once in both.)
    int window = layer->side / layer->sent_side;
    return window > 1 ? avg_pool2d(Y, .kernel = window, .stride = window) : Y;
}

bool begins_block(const Network *network, int l) {
    return network->layers[l].joined && (l == 0 || !network->layers[l - 1].joined);
}
bool ends_block(const Network *network, int l) {
    return !network->layers[l].joined && l > 0 && network->layers[l - 1].joined;
}

Tensor *layers_forward(const Network *network, Range layers, Tensor *X, Tensor *const params[]) {
    Tensor *shortcut = NULL, *block_in = NULL;
    for (int l = (int)layers.first; l < layers.first + layers.count; l++) {
        if (begins_block(network, l)) shortcut = block_in = X;
        if (network->layers[l].shortcut)
            shortcut = layer_forward(network, l, block_in, NULL, params);
        else
            X = layer_forward(network, l, X, ends_block(network, l) ? shortcut : NULL, params);
    }
    return X;
}

// ---- parts -----------------------------------------------------------------------------------

// A part of a parameter is packed, or put back into the whole. W of a convolution (out,in,h,w) and
// b (out) have the units in front, so that a part is one run of memory. W of a fully connected
// layer (in,out) has them last, so that a part is a run in each row.
static void copy_part(float *to, const float *from, const Tensor *whole, Range part, bool packs) {
    bool units_last = whole->ndim == 2;
    size_t rows = units_last ? (size_t)whole->shape[0] : 1, row = numel(whole) / rows;
    size_t unit = units_last ? 1 : row / (size_t)whole->shape[0];
    size_t first = (size_t)part.first * unit, run = (size_t)part.count * unit;
    for (size_t i = 0; i < rows && run > 0; i++)
        memcpy(to + (packs ? i * run : i * row + first), from + (packs ? i * row + first : i * run),
               run * sizeof(float));
}

Tensor *param_part(const Tensor *whole, Range part, Device *device) {
    int shape[MAX_DIMS];
    memcpy(shape, whole->shape, sizeof shape);
    shape[whole->ndim == 2 ? 1 : 0] = (int)part.count;
    Tensor *there = tensor_of_shape(device, whole->ndim, shape);
    there->name = whole->name;
    if (has_values(device)) {
        float *values = xmalloc(tensor_bytes(whole));
        copy_part(values, whole->data, whole, part, true);
        tensor_write(there, values);
        free(values);
    }
    return there;
}

void put_part(float *whole_values, const Tensor *whole, Range part, const float *values) {
    copy_part(whole_values, values, whole, part, false);
}
