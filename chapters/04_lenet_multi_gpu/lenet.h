// lenet.h: the book's LeNet, and one step of its training on k devices. Book: "Multiple GPUs",
// sections "A Toy Network" and "Training".
#ifndef LENET_H
#define LENET_H

#include "common/tensor/functional.h"

// W1 b1 W2 b2 W3 b3 W4 b4
enum { LENET_PARAMS = 8 };

// What an image costs, in FLOP (a multiplication and an addition are two): forward, and in
// training. Backward takes as much again for the gradients of the weights, and for those of what a
// layer gets from the one before; but no one needs the gradient of the image.
enum {
    LENET_CONV1_FLOP = 2 * 20 * 26 * 26 * 9,
    LENET_FORWARD_FLOP = LENET_CONV1_FLOP + 2 * (50 * 9 * 9 * 20 * 25 + 800 * 128 + 128 * 10),
    LENET_TRAINING_FLOP = 3 * LENET_FORWARD_FLOP - LENET_CONV1_FLOP,
};

// The parameters on the host: weights from N(0, 0.01^2), the same for the same seed, biases zero.
void lenet_init(Tensor *params[LENET_PARAMS], uint64_t seed);

// X (n,1,28,28) -> scores of the ten classes (n,10). X and params are on one device.
Tensor *lenet(Tensor *X, Tensor *const params[]);

// The same, operation by operation as in the book: to be read first, and what lenet() is tested
// against.
Tensor *lenet_by_the_book(Tensor *X, Tensor *const params[]);

// Trains on one minibatch (X, y in host memory), in the book's five steps: splits it over the k
// devices; each computes loss and gradients of its shard; gradients are summed over the devices and
// sent back; each device updates its own copy of the parameters. losses[i] is the summed loss of
// shard i, on device i. All is enqueued; the caller waits.
void train_batch(const Tensor *X, const Tensor *y, Tensor *device_params[][LENET_PARAMS],
                 Device *const devices[], int k, float lr, Tensor *losses[]);

#endif
