// problem.h: what all three ways compute: one step of a network on one minibatch.
#ifndef PROBLEM_H
#define PROBLEM_H

#include "spread.h"

// All tensors are on the host.
typedef struct Problem {
    const Network *network;
    Tensor *params[MAX_PARAMS]; // the common start
    Tensor *X, *y;              // one minibatch: (n,1,28,28) and (n)
    float lr;
    int microbatches; // into which a pipeline cuts the minibatch
} Problem;

// The network spread over the devices 0..k-1, which share the cores; for spread_close().
Spread *problem_spread(const Problem *problem, const Strategy *strategy, int k);

// One step of training with the minibatch. Enqueued, not waited for.
void problem_step(const Problem *problem, Spread *s);

// The bytes of the minibatch.
double problem_bytes(const Problem *problem);

#endif
