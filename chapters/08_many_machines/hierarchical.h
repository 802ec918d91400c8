// hierarchical.h: an allreduce in two levels, for hosts with several ranks: Horovod's hierarchical
// allreduce (HOROVOD_HIERARCHICAL_ALLREDUCE).
#ifndef HIERARCHICAL_H
#define HIERARCHICAL_H

#include <stddef.h>
#include "common/tensor/tensor.h"

// NULL if it can be done, else why not: it takes as many ranks on each host, and one device in
// each.
const char *hierarchical_mistake(void);

// All ranks together, once; frees it.
void hierarchical_begin(void);
void hierarchical_end(void);

// t, on this rank's device, becomes the sum of all ranks' t: the same bits on all, in an order of
// its own.
void hierarchical_all_reduce(Tensor *t);

// By the formula: bytes that this rank sends for n floats to ranks on its own host, and to others.
typedef struct HierarchicalBytes {
    size_t inside, across;
} HierarchicalBytes;
HierarchicalBytes hierarchical_bytes(size_t n);

#endif
