// get_params.h: the parameters of a network on a device. Book: "Multiple GPUs", section "Data
// Synchronization".
#pragma once

#include "common/tensor/tensor.h"

// new_params[i] = a copy of params[i] on the device, with a gradient of zeros. Free the copies with
// free_params().
void get_params(Tensor *const params[], int num_params, Device *device, Tensor *new_params[]);
void free_params(Tensor *params[], int num_params);
