// lenet.h: the book's LeNet, and one step of its training on k devices. Book: "Multiple GPUs",
// sections "A Toy Network" and "Training".
//
// To train, call lenet_init() once, get_params() for each device, then train_batch() for each
// minibatch. It only enqueues: do not read the losses without waiting for them, as items() does.
#pragma once

#include "common/tensor/functional.h"

// W1 b1 W2 b2 W3 b3 W4 b4
enum { LENET_PARAMS = 8 };

// The parameters on the host: weights from N(0, 0.01^2), the same for the same seed, biases zero.
void lenet_init(Tensor *params[LENET_PARAMS], uint64_t seed);

// X (n,1,28,28) -> scores of the ten classes (n,10). X and params are on one device.
Tensor *lenet(Tensor *X, Tensor *const params[]);

// The same, operation by operation as in the book. lenet() is tested against it.
Tensor *lenet_by_the_book(Tensor *X, Tensor *const params[]);

// Trains on one minibatch (X, y in host memory), in the book's five steps: splits it over the k
// devices; each computes loss and gradients of its shard; gradients are summed over the devices and
// sent back; each device updates its own copy of the parameters. losses[i] is the summed loss of
// shard i, on device i. All is enqueued; the caller waits.
void train_batch(const Tensor *X, const Tensor *y, Tensor *device_params[][LENET_PARAMS],
                 Device *const devices[], int k, float lr, Tensor *losses[]);

// The same step. GPUs record it when it comes a second time, and then launch it as a whole
// (step_graph.h). CPU devices have no graphs.
void train_batch_as_graph(const Tensor *X, const Tensor *y, Tensor *device_params[][LENET_PARAMS],
                          Device *const devices[], int k, float lr, Tensor *losses[]);
