// get_params.c: a device gets a copy of all parameters, with a gradient attached to each. The
// book's function:
//
// ```python
// def get_params(params, device):
//     new_params = [p.clone().to(device) for p in params]
//     for p in new_params:
//         p.requires_grad_()
//     return new_params
// ```
#include "get_params.h"

void get_params(Tensor *const params[], int num_params, Device *device, Tensor *new_params[]) {
    for (int i = 0; i < num_params; i++) new_params[i] = tensor_to(params[i], device);
    for (int i = 0; i < num_params; i++) attach_grad(new_params[i]);
}

void free_params(Tensor *params[], int num_params) {
    for (int i = 0; i < num_params; i++) tensor_free(params[i]);
}
