// batch_norm.h: batch normalisation. Ioffe and Szegedy, "Batch normalization", 2015. Book: "Batch
// Normalization".
//
// For one device, call batch_norm(). For k devices that should compute what one would, call
// sync_batch_norm(). This is the only layer in which the rows of a minibatch depend on each other,
// so only here does it matter whether the minibatch is one device's shard or all shards.
#pragma once

#include "autograd.h"

// What the layer has on a device, each (C). Weight and bias are trained. Evaluation uses the
// running statistics instead of a minibatch's. In training these may be NULL. Then they are not
// updated.
typedef struct BatchNormTensors {
    Tensor *weight, *bias, *running_mean, *running_var;
} BatchNormTensors;

typedef struct BatchNormOptions {
    bool training;  // use the minibatch's mean and variance, not the running ones
    float momentum; // running = (1 - momentum) running + momentum * the minibatch's
    float eps;      // in 1 / sqrt(variance + eps)
} BatchNormOptions;

// F.batch_norm: Y = weight (X - mean) / sqrt(var + eps) + bias for each channel. X (N,C,H,W) or
// (N,C) -> the same shape. In training, each channel needs more than one value.
Tensor *batch_norm(Tensor *X, BatchNormTensors layer, BatchNormOptions options);

// The same for k shards of one minibatch on k devices, as torch.nn.SyncBatchNorm: mean and variance
// are over all rows of all shards, so the k devices compute what one device with all rows would.
// X[i] and layers[i] are on device i; Y[i] is the output. The running statistics on all devices
// stay equal to the bit. Each device sends 2 C + 1 floats to every other device forward, and 2 C
// backward. Go back with backward_all(), not with backward().
void sync_batch_norm(Tensor *const X[], const BatchNormTensors layers[], int k,
                     BatchNormOptions options, Tensor *Y[]);
