// zero2.c: each device also keeps 1/k of the gradients. All gradients of a unit exist only from the
// beginning of its backward pass until they have been summed.
#include "zero.h"

#include "common/device/trace.h"

void allocate_gradients(Zero *z, int u) {
    trace_label("backward");
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[u][i];
        s->full_grad = floats_on(z->devices[i], z->units[u].floats, MEMORY_GRADIENTS);
        tensor_fill(s->full_grad, 0);
        point_to(z, u, i);
    }
}

void reduce_gradients(Zero *z, int u) {
    Tensor *grads[MAX_DEVICES], *sums[MAX_DEVICES], *received[MAX_DEVICES];
    own_gradients(z, u, sums);
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[u][i];
        grads[i] = s->full_grad;
        received[i] = s->received = room_to_receive(z, u, i);
        // The gradients are complete when the compute queue reaches this point.
        queue_wait(comm_queue(z->devices[i]), device_record(z->devices[i]));
    }
    begin_exchange();
    reduce_scatter(sums, grads, received, z->k);
    end_exchange();
    for (int i = 0; i < z->k; i++)
        z->shards[u][i].reduced = queue_record(comm_queue(z->devices[i]));
}

void finish_reducing(Zero *z, int u) {
    if (u >= z->num_units) return;
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[u][i];
        device_wait(z->devices[i], s->reduced);
        free_in_order(&s->full_grad);
        free_in_order(&s->received);
        point_to(z, u, i);
    }
}

void zero2_backward(Zero *z, Tensor *const losses[]) {
    backward_begin(losses, z->k);
    for (int u = z->num_units - 1; u >= 0; u--) {
        allocate_gradients(z, u);
        backward_until(losses, z->k, z->units[u].tape_begin);
        finish_reducing(z, u + 1); // reduced during the backward pass of unit u
        reduce_gradients(z, u);
    }
    finish_reducing(z, 0);
}

// Each device has updated its own part of the parameters. Now all devices need all parts.
void gather_updated(Zero *z) {
    trace_label("exchange");
    for (int u = 0; u < z->num_units; u++) {
        Tensor *params[MAX_DEVICES], *own[MAX_DEVICES];
        own_parameters(z, u, own);
        for (int i = 0; i < z->k; i++) params[i] = z->shards[u][i].full;
        all_gather(params, own, z->k);
    }
}
