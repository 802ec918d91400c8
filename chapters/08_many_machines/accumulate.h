// accumulate.h: gradient accumulation: a large minibatch on one device, one part after another.
#ifndef ACCUMULATE_H
#define ACCUMULATE_H

#include "common/tensor/nn.h"

// Forward and backward of X (n,...) and y (n), on the host, in so many parts: part i has the rows
// of shard i of split_batch(). Afterwards the network's gradients are the sums over all rows, for
// sgd_step(net, device, lr, n). Returns the loss, summed over the rows. The network must be placed
// on the device. Waits.
double accumulate(Module *net, Device *device, const Tensor *X, const Tensor *y, int parts);

#endif
