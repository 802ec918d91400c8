// network.c: LeNet as a list of layers, and what each of them costs.
#include "network.h"

// ## LeNet as a list of layers
//
// The book's LeNet has two convolutions, each with ReLU and average pooling, then two fully
// connected layers. Chapter 4 writes it as one function, as the book does. To split it, we need to
// get hold of its layers, so here it is a list that says what each layer takes and gives.
//
// The last number of each line says how many outputs, of the size that the layer computes, are kept
// for the backward pass. A convolution keeps two, its own and ReLU's (and the pooled one besides,
// which is smaller). A fully connected layer keeps the product, the product plus bias, and ReLU's.
// The last layer has no ReLU: its outputs are the scores of the ten classes, which the field calls
// logits.

const Network lenet_network = {
    .name = "LeNet",
    .channels = 1,
    .side = 28,
    .num_layers = 4,
    // name, kind, in, out, kernel, side, side after pooling, outputs kept
    .layers =
        {
            {"conv1", CONV, 1, 20, 3, 26, 13, .ops = 2},
            {"conv2", CONV, 20, 50, 5, 9, 4, .ops = 2},
            {"linear3", LINEAR, 800, 128, 1, 1, 1, .ops = 3},
            {"linear4", LINEAR, 128, 10, 1, 1, 1, .ops = 2},
        },
};

// ## What a layer costs
//
// The shapes alone say how many numbers a layer has to learn, how many multiplications (each with
// an addition) an image costs it, how many numbers it passes on to the next layer, and how many it
// keeps for the backward pass. (The backward pass computes about twice as much as the forward
// pass.)
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

static double of_all(const Network *network, double cost(const Layer *)) {
    double sum = 0;
    for (int l = 0; l < network->num_layers; l++) sum += cost(&network->layers[l]);
    return sum;
}
double network_params(const Network *network) { return of_all(network, layer_params); }
double network_macs(const Network *network) { return of_all(network, layer_macs); }
