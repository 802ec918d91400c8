// dp.h: DataParallel, as in torch.nn.DataParallel. It is one program, and device 0 is its head.
// Source: PyTorch's torch/nn/parallel/data_parallel.py, replicate.py and comm.py.
#pragma once

#include "common/base/range.h"
#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// What device 0 gathers after forward.
typedef enum {
    DP_OUTPUTS, // the outputs of all replicas, (n,classes); device 0 computes the loss from them
    DP_MEAN_LOSSES,   // the loss inside forward, as advised: each replica's mean over its rows,
                      // then the mean of these means. Right only for equal shards
    DP_SUMMED_LOSSES, // the same with sums, divided once by the rows of the minibatch: always right
} DpGathers;

typedef struct Dp {
    Module *net;
    int k;
    Device **devices;
    DpGathers gathers;
} Dp;

// Places the network on the devices. Only the parameters on device 0 count. For dp_free().
Dp *dp_new(Module *net, Device *const devices[], int k, DpGathers gathers);
void dp_free(Dp *dp);

// One step on a minibatch, X (n,...) and y (n) on the host, in shards as equal as possible. Returns
// the loss of the minibatch, summed over its rows, on device 0 (with DP_MEAN_LOSSES: n times the
// mean of the means). Only enqueues the work; the caller waits.
Tensor *dp_step(Dp *dp, const Tensor *X, const Tensor *y, float lr);

// The formula: bytes that device i sends and receives in a step on a minibatch of n rows, with
// `row` floats in each row of X and `classes` in each row of the output, in equal shards.
Traffic dp_bytes(const Dp *dp, int i, int n, size_t row, size_t classes);
