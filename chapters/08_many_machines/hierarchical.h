// hierarchical.h: an allreduce in two levels, for hosts with several ranks: Horovod's hierarchical
// allreduce (HOROVOD_HIERARCHICAL_ALLREDUCE).
#ifndef HIERARCHICAL_H
#define HIERARCHICAL_H

#include "common/tensor/tensor.h"

// NULL if it can be done, else why not: all hosts must have the same number of ranks.
const char *hierarchical_mistake(void);

// By all ranks, before the first sum and after the last one. hierarchical_begin() die()s if it
// cannot be done.
void hierarchical_begin(void);
void hierarchical_end(void);

// t, on this rank's device, becomes the sum of all ranks' t: the same bits on all ranks, in another
// order of additions than the other sums.
void hierarchical_all_reduce(Tensor *t);

#endif
