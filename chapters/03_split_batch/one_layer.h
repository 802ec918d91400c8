// one_layer.h: a network of one layer, and its gradients on k devices.
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/tensor/tensor.h"

#include <stdint.h>

enum { PIXELS = 28 * 28, CLASSES = FASHION_MNIST_CLASSES, NUM_GRADS = PIXELS * CLASSES + CLASSES };

// params[0] = W, params[1] = b, on the host; to be freed with free_params().
void one_layer_new(Tensor *params[2], uint64_t seed);

// Opens devices 0..k-1 and begins a step on them.
void open_step(Device *devices[], int k);

// What a device computes: the gradient of the *sum* of its rows' losses.
typedef struct ShardGradient {
    int rows;
    float g[NUM_GRADS];
} ShardGradient;

// Splits the first n rows of X and y over k devices. Returns the k gradients, to be freed. (Where
// devices have no values, do not look at them.) Each call is a step of the trace.
ShardGradient *gradients_of_shards(const Tensor *X, const Tensor *y, int n, int k,
                                   Tensor *const params[2]);
