// suspects.h: parameters that are not the expected ones do not say why. So the mistakes that are
// often made are made here on purpose, until one of them ends with the same parameters. The checks
// of exercises 1 and 2 name it.
#ifndef SUSPECTS_H
#define SUSPECTS_H

#include "replicas.h"

// What should have been done: passes over the data, with minibatches of k * b images in an order
// that is made from the seed. `start` is where it began.
typedef struct Training {
    const Replicas *start;
    const Dataset *data;
    int k, b, epochs;
    float lr;
    uint64_t seed;
} Training;

// A hint for a training that ended with other parameters, those in `came` (as replica_values() has
// them): the mistake that leads there, or all suspects, if none of them does alone.
const char *suspect_of(const Training *t, const float *came);

#endif
