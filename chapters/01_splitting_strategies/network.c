// network.c: networks as tables of layers; see network.h.
#include "network.h"

#include "common/tensor/random.h"

#include <stdio.h>
#include <string.h>

// ## The network
//
// The book's LeNet: two convolutions, each with ReLU and average pooling, then two fully connected
// layers. Chapter 4 writes it down as one function. To split it, we need to get hold of its layers:
// a list of them, and for each what it takes and gives. A convolution keeps two outputs until
// backward (its own and ReLU's) and the pooled one; a fully connected layer keeps the product, the
// product plus bias, and ReLU's.
// clang-format off
const Network lenet_network = {
    "LeNet", 1, 28, 4,
    // name, kind, in, out, kernel, side, side after pooling, outputs kept
    {{"conv1", CONV, 1, 20, 3, 26, 13, .ops = 2},
     {"conv2", CONV, 20, 50, 5, 9, 4, .ops = 2},
     {"linear3", LINEAR, 800, 128, 1, 1, 1, .ops = 3},
     {"linear4", LINEAR, 128, 10, 1, 1, 1, .ops = 2}},
};
// clang-format on

// And a network that is made to be cut into equal stages. The first layer has more inputs; but no
// gradient with respect to the image is computed, so that its work, forward and backward together,
// is about that of the others.
// clang-format off
#define EQUAL(name, in, ops_) {name, LINEAR, in, 512, 1, 1, 1, .ops = ops_}
const Network equal_network = {
    "eight equal layers", 1, 28, 8,
    {EQUAL("linear1", 784, 3), EQUAL("linear2", 512, 3), EQUAL("linear3", 512, 3),
     EQUAL("linear4", 512, 3), EQUAL("linear5", 512, 3), EQUAL("linear6", 512, 3),
     EQUAL("linear7", 512, 3), EQUAL("linear8", 512, 2)},
};
// clang-format on

static double square(int side) { return (double)side * side; }

double layer_params(const Layer *l) {
    return (double)l->out * (l->in * square(l->kernel) + (l->norm ? 2 : 1));
}
double layer_macs(const Layer *l) {
    return (double)l->out * l->in * square(l->kernel) * square(l->side);
}
double layer_sent(const Layer *l) { return l->shortcut ? 0 : l->out * square(l->sent_side); }
double layer_kept(const Layer *l) {
    double pooled = l->sent_side != l->side ? square(l->sent_side) : 0;
    return l->out * (l->ops * square(l->side) + pooled);
}

// ---- networks that run -----------------------------------------------------------------------

int num_params(const Network *network) { return 2 * network->num_layers; }

static const char *param_name(char letter, int layer) {
    static char names[2][MAX_LAYERS][16];
    char *name = names[letter == 'b'][layer];
    snprintf(name, sizeof names[0][0], "%c%d", letter, layer + 1);
    return name;
}

void network_init(const Network *network, Tensor *params[], double scale, uint64_t seed) {
    for (int i = 0; i < network->num_layers; i++) {
        const Layer *l = &network->layers[i];
        Tensor *W = l->kind == CONV ? tensor_new(host(), l->out, l->in, l->kernel, l->kernel)
                                    : tensor_new(host(), l->in, l->out); // as the book stores it
        Tensor *b = tensor_new(host(), l->out);
        W->name = param_name('W', i);
        b->name = param_name('b', i);
        fill_normal(W->data, numel(W), scale, seed, STREAM_PARAMS + 2 * (uint32_t)i);
        tensor_fill(b, 0);
        params[2 * i] = W;
        params[2 * i + 1] = b;
    }
}

Tensor *layer_forward(const Layer *l, Tensor *X, Tensor *W, Tensor *b) {
    Tensor *Y;
    if (l->kind == CONV) {
        Y = avg_pool2d(relu(conv2d(X, W, b)), .kernel = 2, .stride = 2);
    } else {
        Y = add_bias(mm(reshape(X, X->shape[0], -1), W), b);
        if (l->ops == 3) Y = relu(Y); // all but the last, whose outputs are the scores
    }
    return Y;
}

// ---- parts -----------------------------------------------------------------------------------

// A parameter as (outer, units, inner) numbers. W of a convolution (out,in,h,w) and b (out) have
// the units in front, so that a part is one run of memory; W of a fully connected layer (in,out)
// has them last, so that a part is some columns.
typedef struct Cut {
    size_t outer, units, inner;
} Cut;

static Cut cut_of(const Tensor *p) {
    if (p->ndim == 2) return (Cut){(size_t)p->shape[0], (size_t)p->shape[1], 1};
    return (Cut){1, (size_t)p->shape[0], numel(p) / (size_t)p->shape[0]};
}

static void take_part(float *values, const Tensor *whole, Range part) {
    Cut cut = cut_of(whole);
    size_t run = (size_t)part.count * cut.inner;
    if (run == 0) return;
    for (size_t i = 0; i < cut.outer; i++)
        memcpy(values + i * run, whole->data + (i * cut.units + (size_t)part.first) * cut.inner,
               run * sizeof(float));
}

Tensor *param_part(const Tensor *whole, Range part, Device *device) {
    int shape[MAX_DIMS];
    memcpy(shape, whole->shape, sizeof shape);
    shape[whole->ndim == 2 ? 1 : 0] = (int)part.count;
    Tensor *piece = tensor_of_shape(host(), whole->ndim, shape);
    take_part(piece->data, whole, part);
    Tensor *there = tensor_to(piece, device);
    there->name = whole->name;
    synchronize(device);
    tensor_free(piece);
    return there;
}

void put_part(float *whole_values, const Tensor *whole, Range part, const float *values) {
    Cut cut = cut_of(whole);
    size_t run = (size_t)part.count * cut.inner;
    if (run == 0) return;
    for (size_t i = 0; i < cut.outer; i++)
        memcpy(whole_values + (i * cut.units + (size_t)part.first) * cut.inner, values + i * run,
               run * sizeof(float));
}
