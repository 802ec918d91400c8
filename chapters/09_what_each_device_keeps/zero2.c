// zero2.c: each device also keeps 1/k of the gradients. All gradients of a unit exist only from the
// beginning of its backward pass until they have been summed.
#include "zero.h"

void zero2_step(Zero *z, Tensor *const X[], Tensor *const y[], float lr, int batch_size,
                Tensor *losses[]) {
    Tensor *Y[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) Y[i] = X[i];
    for (int u = 0; u < z->num_units; u++) { forward_unit(z, u, Y); }

    sum_losses(z, Y, y, losses);
    backward_begin(losses, z->k);
    for (int u = z->num_units - 1; u >= 0; u--) {
        allocate_gradients(z, u);
        backward_until(losses, z->k, z->units[u].tape_begin);
        finish_reducing(z, u + 1); // reduced during the backward pass of unit u
        reduce_gradients(z, u);
    }
    finish_reducing(z, 0);

    update_own(z, lr, batch_size);
    for (int u = 0; u < z->num_units; u++) gather_updated(z, u);
}
