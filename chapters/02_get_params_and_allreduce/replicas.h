// replicas.h: vectors on k devices, and whether they are equal.
#ifndef REPLICAS_H
#define REPLICAS_H

#include "common/tensor/tensor.h"

// One vector of n floats on each of the devices 0..k-1, contents undefined; the devices share the
// cores. To be freed with free_params().
void vectors_on_devices(Tensor *data[], int k, int n);

// Whether two tensors, wherever they are, have the same shape and the same bits. Waits.
bool same_bits(const Tensor *a, const Tensor *b);
bool all_replicas_equal(Tensor *const data[], int k);

#endif
