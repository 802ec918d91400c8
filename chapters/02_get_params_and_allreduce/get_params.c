// get_params.c: copy all parameters to a device, and attach a gradient to each.
#include "get_params.h"

void get_params(Tensor *const params[], int num_params, Device *device, Tensor *new_params[]) {
    for (int i = 0; i < num_params; i++) new_params[i] = tensor_to(params[i], device);
    for (int i = 0; i < num_params; i++) attach_grad(new_params[i]);
}

void free_params(Tensor *params[], int num_params) {
    for (int i = 0; i < num_params; i++) tensor_free(params[i]);
}
