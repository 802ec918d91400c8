// pair.h: two devices that train one network, and how long a step takes them: measured on devices
// that compute, or modelled on those of a machine that need not be there.
#pragma once

#include "chapters/05_resnet18_concise/exercises/small_networks.h"

enum { K = 2 };

// Two devices and one minibatch.
typedef struct Pair {
    DataParallel both, first; // on both devices; on the first alone
    Tensor X, y;
    bool modelled; // on model devices: all times are
} Pair;
Pair pair_of(Module *net, Device *first, Device *second, const Tensor *X, const Tensor *y);

// What a step on n images takes the two with equal shards, with shards in proportion to their
// speeds, and the first one alone.
typedef struct Result {
    int n, rows[K];                       // in proportion
    double speed[K], exchange;            // images per second; seconds, with the update
    double equal, proportional, alone;    // seconds per step, measured or modelled
    double said_equal, said_proportional; // predicted
} Result;
// On all images, after measuring speeds and exchange; or on n, with those that are known.
Result measure_all(Pair *p);
Result measure(Pair *p, int n, Result known);
