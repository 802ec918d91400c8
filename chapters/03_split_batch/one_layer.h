// one_layer.h: a network small enough to look at, one layer from the 784 pixels of an image to 10
// classes, and its gradients on k devices.
#ifndef ONE_LAYER_H
#define ONE_LAYER_H

#include "common/data/fashion_mnist.h"
#include "common/tensor/tensor.h"

#include <stdint.h>

enum { PIXELS = 28 * 28, CLASSES = FASHION_MNIST_CLASSES };
// The gradient's numbers: those of W (784, 10), then from number FIRST_BIAS on those of b (10).
enum { FIRST_BIAS = PIXELS * CLASSES, NUM_GRADS = FIRST_BIAS + CLASSES };

// params[0] = W, params[1] = b, on the host; to be freed with free_params().
void one_layer_new(Tensor *params[2], uint64_t seed);

// What a device found for its shard: the gradient of the *sum* of its rows' losses, and how many
// rows these are.
typedef struct ShardGradient {
    int rows;
    double g[NUM_GRADS];
} ShardGradient;

// Splits the first n rows of X (.., 1, 28, 28) and y over the devices 0..k-1, lets all of them
// compute, then reads their gradients. Returns k of them, to be freed; on devices without values
// their contents are undefined. Each call is a step of the trace, numbered from 1.
ShardGradient *gradients_of_shards(const Tensor *X, const Tensor *y, int n, int k,
                                   Tensor *const params[2]);

#endif
