// modelled_times.h: how long an allreduce takes on a machine that need not be here. The same code
// runs on devices that compute nothing, and a simulation says when each of its copies and additions
// would be done.
#ifndef MODELLED_TIMES_H
#define MODELLED_TIMES_H

#include "common/model/machine.h"
#include "common/tensor/tensor.h"

// Seconds of one allreduce of vectors of n floats on k devices of that machine.
double modelled_allreduce(const Machine *machine, void (*run)(Tensor *const data[], int k), int k,
                          int n);

#endif
