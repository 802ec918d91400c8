// problem.h: what all three strategies compute: one step of a network on one minibatch.
#pragma once

#include "common/program/flags.h"
#include "spread.h"

// All tensors are on the host.
typedef struct Problem {
    const Network *network;
    Tensor *params[MAX_PARAMS]; // the common start
    Tensor *X, *y;              // one minibatch: (n,1,28,28) and (n)
    float lr;
    int microbatches; // into which a pipeline cuts the minibatch
    bool only_time;   // on devices that compute nothing (model_device()); values undefined
} Problem;

// LeNet and the first minibatch that the flags ask for; for problem_free(). (With --backend model
// the images have no values.)
Problem problem_of_lenet(const Flags *flags, int microbatches);
// A problem of this size without values, to tell its time on the machine of the modelled clock; for
// problem_free().
Problem problem_to_model(const Network *network, int images, int microbatches);
void problem_free(Problem *problem);
// Whether the strategy can use k devices for it. For a problem_to_model(), the machine of the
// modelled clock must have k devices with enough memory.
bool problem_fits(const Problem *problem, const Strategy *strategy, int k);

// The network spread over the devices 0..k-1, which share the cores; for spread_close().
Spread *problem_spread(const Problem *problem, const Strategy *strategy, int k);

// One step of training with the minibatch. Returns the seconds that it takes on the machine of the
// modelled clock, NAN without one.
double problem_step(const Problem *problem, Spread *s);

// The same on k devices that are there for this step alone, for a problem_to_model().
double modelled_step(const Problem *problem, const Strategy *strategy, int k);
