// zero1.c: each device keeps 1/k of Adam's moments.
#include "zero.h"

#include "common/device/trace.h"

void zero1_step(Zero *z, Tensor *const X[], Tensor *const y[], float lr, int batch_size,
                Tensor *losses[]) {
    Tensor *Y[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) Y[i] = X[i];
    forward_unit(z, 0, Y); // the whole network is one unit

    sum_losses(z, Y, y, losses);
    backward_all(losses, z->k);

    trace_label("exchange");
    make_room_to_receive(z, 0);
    UnitTensors t = tensors_of(z, 0);
    reduce_scatter(t.own_grad, t.full_grad, t.received, z->k);
    update_own(z, lr, batch_size);
    trace_label("exchange");
    all_gather(t.full, t.own, z->k);
    for (int i = 0; i < z->k; i++) {
        tensor_fill(t.full_grad[i], 0); // update_own() has cleared only own_grad[i]
        free_in_order(&z->shards[0][i].received);
    }
}
