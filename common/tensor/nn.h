// nn.h: networks put together from modules, as with torch.nn. Book: "Concise Implementation for
// Multiple GPUs". To keep a network in a file, see checkpoints.h.
//
//     Module *net = Sequential(Conv2d(1, 6, .kernel_size = 5, .padding = 2), ReLU(), Flatten(),
//                              Linear(6 * 28 * 28, 10));
//     initialize(net, seed);
//     Tensor *y_hat = forward(net, X); // X on any device
//
// A module owns its parameters and computes with the operations of functional.h. A parameter has a
// start on the host, given by initialize() or load_parameters(). It gets a copy on each device when
// the first data arrives there.
#pragma once

#include <stdint.h>
#include "batch_norm.h"
#include "functional.h"

typedef struct Module Module;

// ---- modules, with PyTorch's names ------------------------------------------------------------

// X (N,in,H,W) -> (N,out,..), with bias. Conv2d(3, 64, .kernel_size = 3, .stride = 2, .padding = 1)
#define Conv2d(in, out, ...)                                                                       \
    conv2d_module((in), (out), (Conv2dModuleOptions){.unused = 0, __VA_ARGS__})
typedef struct Conv2dModuleOptions {
    int unused;
    int kernel_size, padding;
    int stride; // default 1
} Conv2dModuleOptions;
Module *conv2d_module(int in_channels, int out_channels, Conv2dModuleOptions options);

// X (N,C,..): see batch_norm.h. eps 1e-5, momentum 0.1, as in PyTorch.
Module *BatchNorm2d(int num_features);

// X (N,C): each row by itself. eps 1e-5, as in PyTorch.
Module *LayerNorm(int num_features);

Module *ReLU(void);
Module *GELU(void);

// The mean of each kernel_size x kernel_size window, without overlap.
Module *AvgPool2d(int kernel_size);
// The mean of out_h x out_w windows: (N,C,H,W) -> (N,C,out_h,out_w). H and W must be multiples of
// out_h and out_w. AdaptiveAvgPool2d(1, 1) is the global mean.
Module *AdaptiveAvgPool2d(int out_h, int out_w);

// (N,C,H,W) -> (N,C*H*W)
Module *Flatten(void);

// X (N,in) -> (N,out), with bias
Module *Linear(int in_features, int out_features);

// One module after the other: Sequential(Flatten(), Linear(512, 10)). Their names are "0", "1", ...
// Sequential(NULL) is empty.
#define Sequential(...) sequential_of((Module *const[]){__VA_ARGS__, NULL})
Module *sequential_of(Module *const modules[]); // ends with NULL
// Adds one at the end, under a name.
void add_module(Module *sequential, const char *name, Module *module);

// The book's residual block (He et al., "Deep residual learning", 2016): relu(bn2(conv2(relu(
// bn1(conv1(X))))) + X), where X passes a 1x1 convolution, conv3, with .use_1x1conv.
#define Residual(in, out, ...)                                                                     \
    residual_module((in), (out), (ResidualOptions){.unused = 0, __VA_ARGS__})
typedef struct ResidualOptions {
    int unused;
    bool use_1x1conv;
    int strides; // default 1
} ResidualOptions;
Module *residual_module(int in_channels, int out_channels, ResidualOptions options);

// Frees the module, those in it and all copies of their parameters.
void module_free(Module *net);

// ---- from start to output ---------------------------------------------------------------------

// Gives the network its start: weights of Linear and Conv2d from N(0, 0.01^2), as in the book, the
// same for the same seed; biases 0; batch norm as in PyTorch (weight 1, mean 0, variance 1). No
// device has copies any more.
void initialize(Module *net, uint64_t seed);
// The same without values, which takes no time. For networks on devices without values.
void initialize_without_values(Module *net);
// Goes back to the start: no device has copies any more, and the counts of minibatches are what
// they were.
void restart(Module *net);

// Batch norm uses the minibatch's statistics in training (at first), and the running ones in
// evaluation. net.train(), net.eval()
void set_training(Module *net, bool training);

// Whether a minibatch in training changes batch norm's running statistics and counts (at first) or
// leaves them as they are. PyTorch: track_running_stats
void set_track_running_stats(Module *net, bool track);

// Whether batch norm takes mean and variance over all k shards (sync_batch_norm()), or (at first)
// each device over its own.
void set_sync_batch_norm(Module *net, bool sync);

// net(X), on the device of X.
Tensor *forward(Module *net, Tensor *X);
// The same for k shards on k devices: Y[i] = net(X[i]). All devices compute one module before the
// next. With synchronised batch norm, go back with backward_all().
void forward_all(Module *net, Tensor *const X[], int k, Tensor *Y[]);

// ---- parameters -------------------------------------------------------------------------------

// A parameter, or a buffer, which is kept with the parameters but is not trained.
typedef struct Parameter {
    char *name;                 // as in PyTorch's state_dict: "resnet_block1.0.conv1.weight"
    bool trained;               // false: a buffer (running statistics)
    double deviation;           // it starts from N(0, deviation^2), or, if this is 0,
    float value;                // from this value
    Tensor *start;              // on the host
    Tensor *on[NUM_DEVICE_IDS]; // its copies; NULL where there is none
    Module *net;                // the network that initialize() was called for
    size_t first;               // where it begins in FlatParameters
} Parameter;

// All parameters of an initialized network, in the order of state_dict.
typedef struct Parameters {
    int n;
    Parameter **list;
} Parameters;
Parameters parameters_of(const Module *net);

// die()s if no parameter has this name.
Parameter *find_parameter(const Module *net, const char *name);

// The book's weight.data(device): the copy on a device. die()s if there is none, because no data
// went through the network there.
Tensor *parameter_data(const Parameter *parameter, const Device *device);

// Makes copies on a device, before data arrives there. (forward() does so by itself.)
void place_on(Module *net, Device *device);

// A network's parameters on a device are slices of a few long vectors, in the order of state_dict.
// So a step needs one update per device, and an exchange can be larger than one small tensor. There
// are no gaps, so an exchange has just the bytes that the formulas say. (In ResNet-18 all
// parameters begin at multiples of 256 bytes, which is fast on GPUs.)
typedef struct FlatParameters {
    Tensor *data, *grad; // what is trained
    Tensor *buffers;     // what is not trained; it may have no elements
} FlatParameters;
// die()s if there are none on the device, as parameter_data() does.
FlatParameters flat_parameters(const Module *net, const Device *device);

// sgd() of functional.h for all trained parameters on a device.
void sgd_step(Module *net, Device *device, float lr, int batch_size);

// A part of the network: a module in it that is no Sequential, and its parameters, list[first] to
// list[first + num - 1] of parameters_of().
typedef struct NetPart {
    Module *module;
    int first, num;
} NetPart;
// The parts in the order in which data passes through them. *n is their number. free() the array.
NetPart *net_parts(Module *net, int *n);
// X[i] becomes the part's output for X[i], on k devices.
void forward_part(const NetPart *part, Tensor *X[], int k);

// place_on() for a program that gives memory to parameters and takes it away again (chapter 9).
// Buffers have memory at once. No trained parameter has any, nor its gradient, before
// parameter_memory() says where they are. Gradients have to be zero there.
void place_without_memory(Module *net, Device *device);
void parameter_memory(const Parameter *parameter, const Device *device, float *data, float *grad);

// Bytes of the trained parameters and of the buffers (running statistics), on one device.
size_t parameter_bytes(const Module *net);
size_t buffer_bytes(const Module *net);

// ---- counts of minibatches ----------------------------------------------------------------------

// How many minibatches each batch norm was trained with, as n names and values: PyTorch's
// num_batches_tracked, now or at the network's start (0, or what a file held). free_counts() them.
typedef struct Counts {
    int n;
    NamedCount *list;
} Counts;
Counts counts_of(const Module *net, bool at_start);
void set_counts(Module *net, const Counts *counts, bool at_start);
void free_counts(Counts *counts);
