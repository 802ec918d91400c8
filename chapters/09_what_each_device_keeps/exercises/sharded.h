// sharded.h: what the exercises of this chapter share: a network on k devices, each of which keeps
// a part of the state of SGD with momentum.
#pragma once

#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

enum { MOST_TENSORS = 8, MOST_SHARDS = 8 };

// Tensors are [parameter][device]. Part i of n floats is equal_range(n, k, i). A parameter that is
// not divided belongs to every device: own[p][i] is then params[p][i], own_grads[p][i] is
// grads[p][i], and moments[p][i] has n floats.
typedef struct Sharded {
    Module *net;
    int k, n; // devices, parameters
    Device *devices[MOST_SHARDS];
    bool divided[MOST_TENSORS];
    Tensor *params[MOST_TENSORS][MOST_SHARDS];    // what the network computes with
    Tensor *grads[MOST_TENSORS][MOST_SHARDS];     // sums over the rows of the device
    Tensor *own[MOST_TENSORS][MOST_SHARDS];       // part i of the parameter: device i updates it
    Tensor *own_grads[MOST_TENSORS][MOST_SHARDS]; // part i of the gradient
    Tensor *moments[MOST_TENSORS][MOST_SHARDS];   // of part i; 0 at first
    Tensor *received[MOST_TENSORS][MOST_SHARDS];  // room for the other devices' part i
    Tensor *squares[MOST_SHARDS];                 // one number on each device, undefined at first
} Sharded;

// Places an initialize()d network, which has no buffers, on k devices. Parameters of fewer than
// `smallest` floats are not divided. If `apart` is set, own and own_grads have separate
// memory. Otherwise they are slices of params and grads. No parameter has fewer than k floats.
Sharded *sharded_new(Module *net, int k, size_t smallest, bool apart);
void sharded_free(Sharded *s); // and its copies on the devices; the network stays

// Begins a step: adds the gradients of the minibatch X (rows,..), y (rows), which is split over the
// devices, to grads. Returns the mean loss of its rows. Waits.
float compute_gradients(Sharded *s, const Tensor *X, const Tensor *y);

// *total += the sum of the squares of all numbers in t, which is on the same device.
void add_squares(Tensor *total, const Tensor *t);

// moment = 0.9 moment + factor * grad; param -= lr * moment; grad = 0. All on one device.
void momentum_step(Tensor *param, Tensor *grad, Tensor *moment, float lr, float factor);
