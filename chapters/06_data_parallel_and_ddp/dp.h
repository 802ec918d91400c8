// dp.h: DataParallel, as torch.nn.DataParallel works: one program, and device 0 is its head.
// Source: the text's section "nn.DataParallel"; PyTorch's torch/nn/parallel/data_parallel.py,
// replicate.py and comm.py.
#ifndef DP_H
#define DP_H

#include "common/base/range.h"
#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

// What device 0 gathers after forward.
typedef enum {
    DP_OUTPUTS, // the outputs of all replicas, (n,classes); the loss is computed from them there
    DP_MEAN_LOSSES,   // the loss inside forward, as the text has it: each replica's mean over its
                      // rows, and then the mean of these. Right for equal shards only
    DP_SUMMED_LOSSES, // the same with sums, divided once by the rows of the minibatch: always right
} DpGathers;

typedef struct Dp {
    Module *net;
    int k;
    Device **devices;
    DpGathers gathers;
} Dp;

// Places the network on the devices; the parameters are those on device 0. For dp_free().
Dp *dp_new(Module *net, Device *const devices[], int k, DpGathers gathers);
void dp_free(Dp *dp);

// One step on a minibatch, X (n,...) and y (n) on the host, in shards as equal as can be. Returns
// the loss of the minibatch, summed over its rows, on device 0 (with DP_MEAN_LOSSES: n times the
// mean of the means). All is enqueued; the caller waits.
Tensor *dp_step(Dp *dp, const Tensor *X, const Tensor *y, float lr);

// The formula: bytes that device i sends and receives in a step on a minibatch of n rows, with
// `row` floats in each row of X and `classes` in each row of the output, in equal shards.
Traffic dp_bytes(const Dp *dp, int i, int n, size_t row, size_t classes);

#endif
