// zero3.c: each device also keeps 1/k of the parameters. All parameters of a unit exist only while
// it computes, once in the forward pass and once in the backward pass. PyTorch calls this
// `fully_shard` (FSDP).
#include "zero.h"

void zero3_step(Zero *z, Tensor *const X[], Tensor *const y[], float lr, int batch_size,
                Tensor *losses[]) {
    Tensor *Y[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) Y[i] = X[i];
    unshard(z, 0);
    for (int u = 0; u < z->num_units; u++) {
        unshard(z, u + 1); // on the communication queues, while unit u computes
        wait_for_parameters(z, u);
        forward_unit(z, u, Y);
        reshard(z, u);
    }

    sum_losses(z, Y, y, losses);
    backward_begin(losses, z->k);
    unshard(z, z->num_units - 1);
    for (int u = z->num_units - 1; u >= 0; u--) {
        unshard(z, u - 1);
        allocate_gradients(z, u);
        wait_for_parameters(z, u);
        backward_until(losses, z->k, z->units[u].tape_begin);
        reshard(z, u);
        finish_reducing(z, u + 1); // reduced during the backward pass of unit u
        reduce_gradients(z, u);
    }
    finish_reducing(z, 0);

    update_own(z, lr, batch_size);
    check_all_resharded(z);
}
