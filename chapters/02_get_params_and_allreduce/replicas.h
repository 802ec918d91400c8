// replicas.h: vectors on k devices, whether they are equal, and what to say of values where there
// are none.
#ifndef REPLICAS_H
#define REPLICAS_H

#include "common/tensor/tensor.h"

// One vector of n floats on each of the devices 0..k-1, contents undefined; the devices share the
// cores. To be freed with free_params().
void vectors_on_devices(Tensor *data[], int k, int n);

// Whether there can be k devices: the machine whose time is told may have fewer.
bool can_have_devices(int k);

// Whether two tensors, wherever they are, have the same shape and the same bits. Waits.
bool same_bits(const Tensor *a, const Tensor *b);
bool all_replicas_equal(Tensor *const data[], int k);

// ---- devices that compute nothing have no values (--backend model) ----------------------------

// tensor_print(), or a line that says so.
void print_values(const char *label, const Tensor *t);
// say_checked(), or a line that says that there are no values on this device to check.
void say_checked_on(const Device *device, bool holds, const char *statement);

#endif
