// replicas.h: vectors on k devices; and what to print where devices have no values.
#ifndef REPLICAS_H
#define REPLICAS_H

#include "common/tensor/tensor.h"

// One vector of n floats on each of the devices 0..k-1, contents undefined; the devices share the
// cores. Free them with free_params().
void vectors_on_devices(Tensor *data[], int k, int n);

// Whether there can be k devices: the machine whose time is told may have fewer.
bool can_have_devices(int k);

// Whether two tensors, wherever they are, have the same shape and the same bits. Waits.
bool same_bits(const Tensor *a, const Tensor *b);
bool all_replicas_equal(Tensor *const data[], int k);

// say_checked(); with --backend model, a line that says there are no values.
void say_checked_on(const Device *device, bool holds, const char *statement);

#endif
