// network.h: networks as lists of layers, and what a device may hold of a layer.
#pragma once

#include "common/base/range.h"
#include "common/tensor/functional.h"

// ---- layers ----------------------------------------------------------------------------------

typedef enum { CONV, LINEAR } LayerKind;

// A layer that has parameters, together with what follows it (ReLU, pooling), which has none.
typedef struct Layer {
    const char *name;
    LayerKind kind;
    int in, out;         // channels, or units
    int kernel;          // side of the square filters; 1 for LINEAR
    int side;            // of the square images that it computes; 1 for LINEAR
    int sent_side;       // of the images that the next layer gets: smaller where windows are pooled
    int stride, padding; // of a convolution; 0: a stride of 1
    int ops;       // operations that keep an output of out x side x side numbers until backward
    bool norm;     // batch normalization (two numbers for each channel) in place of a bias
    bool shortcut; // beside the main path: adds to the next layer's output, sends nothing itself
    bool joined;   // of one block with the next layer: the network is not cut between the two
} Layer;

enum { MAX_LAYERS = 24 };

typedef struct Network {
    const char *name;
    int channels, side; // of its input images
    int num_layers;
    Layer layers[MAX_LAYERS];
    bool image_grad; // computes the gradient with respect to the images, too, as other layers do
} Network;

extern const Network lenet_network; // network.c; chapter 4 has it as the book writes it
// behind/other_networks.c: eight fully connected layers with equal work; the same, eight times as
// wide.
extern const Network equal_network, wide_network;
// behind/other_networks.c: for ImageNet, 224 x 224 pixels and 1000 classes.
extern const Network alexnet_network, resnet18_network;

double layer_params(const Layer *l); // numbers to learn
double layer_macs(const Layer *l); // multiplications, each with an addition, for one image forward
double layer_sent(const Layer *l); // numbers per image that go to the next layer
double layer_kept(const Layer *l); // numbers per image that are kept until backward
double network_params(const Network *network); // of all layers together
double network_macs(const Network *network);

// ---- networks that run: behind/layers.c ------------------------------------------------------

// Layer l has W = params[2l] and b = params[2l+1]. Behind these come the weights of the layers that
// normalize, which are the first of the network. Their b is the bias of the normalization.
enum { MAX_PARAMS = 3 * MAX_LAYERS };
int num_params(const Network *network);
int layer_of_param(const Network *network, int p);

// The parameters on the host: weights from N(0, scale^2), the same for the same seed; biases zero,
// weights of normalization one.
void network_init(const Network *network, Tensor *params[], double scale, uint64_t seed);
// Their shapes alone, contents undefined: for devices that compute nothing.
void network_shapes(const Network *network, Tensor *params[]);

// X (n,in,..) -> what the next layer gets, through layer l. The parameters may be those of some of
// the layer's channels (or units) only; then only those come out. `shortcut`, with as many of them,
// is added at the end of a residual block; else it is NULL.
Tensor *layer_forward(const Network *network, int l, Tensor *X, Tensor *shortcut,
                      Tensor *const params[]);
// Through several layers, in which blocks are whole.
Tensor *layers_forward(const Network *network, Range layers, Tensor *X, Tensor *const params[]);

// Whether a residual block begins with layer l, or ends with it.
bool begins_block(const Network *network, int l);
bool ends_block(const Network *network, int l);

// ---- parts -----------------------------------------------------------------------------------

// A parameter of some of its layer's channels or units, as a new tensor on the device.
Tensor *param_part(const Tensor *whole, Range part, Device *device);
// The other way: puts the values of such a part where they belong in the whole parameter's.
void put_part(float *whole_values, const Tensor *whole, Range part, const float *values);
