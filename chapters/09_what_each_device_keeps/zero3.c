// zero3.c: each device also keeps 1/k of the parameters. All parameters of a unit exist only while
// it computes, once in the forward pass and once in the backward pass. PyTorch calls this
// `fully_shard` (FSDP).
#include "zero.h"

#include "common/base/error.h"

// ## What must hold

static void check_freed(const Zero *z, int u) {
    for (int i = 0; i < z->k; i++)
        if (z->shards[u][i].full)
            die("unshard() a unit once, and reshard() it before the next time",
                "the unit of %s is gathered already on %s", unit_name(z, u),
                device_name(z->devices[i]));
}

void check_gathered(const Zero *z, int u) {
    for (int i = 0; i < z->k; i++)
        if (!z->shards[u][i].full)
            die("unshard() it first, and reshard() it when its kernels are enqueued",
                "the unit of %s is not gathered on %s", unit_name(z, u),
                device_name(z->devices[i]));
}

// ## Gather late, free early

void unshard(Zero *z, int u) {
    Tensor *full[MAX_DEVICES], *own[MAX_DEVICES];
    if (u < 0 || u >= z->num_units) return; // there is no next one
    check_freed(z, u);
    own_parameters(z, u, own);
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[u][i];
        full[i] = s->full = floats_on(z->devices[i], z->units[u].floats, MEMORY_PARAMETERS);
        // Earlier kernels may still be using this memory.
        queue_wait(comm_queue(z->devices[i]), device_record(z->devices[i]));
        point_to(z, u, i);
    }
    begin_exchange();
    all_gather(full, own, z->k);
    end_exchange();
    for (int i = 0; i < z->k; i++)
        z->shards[u][i].gathered = queue_record(comm_queue(z->devices[i]));
}

void wait_for_parameters(Zero *z, int u) {
    check_gathered(z, u);
    for (int i = 0; i < z->k; i++) device_wait(z->devices[i], z->shards[u][i].gathered);
}

void reshard(Zero *z, int u) {
    check_gathered(z, u);
    for (int i = 0; i < z->k; i++) {
        free_in_order(&z->shards[u][i].full);
        point_to(z, u, i);
    }
}

// ## A step

void zero3_forward(Zero *z, Tensor *Y[]) {
    unshard(z, 0);
    for (int u = 0; u < z->num_units; u++) {
        unshard(z, u + 1); // on the communication queues, while unit u computes
        wait_for_parameters(z, u);
        forward_unit(z, u, Y);
        reshard(z, u);
    }
}

void zero3_backward(Zero *z, Tensor *const losses[]) {
    backward_begin(losses, z->k);
    unshard(z, z->num_units - 1);
    for (int u = z->num_units - 1; u >= 0; u--) {
        unshard(z, u - 1);
        allocate_gradients(z, u);
        wait_for_parameters(z, u);
        backward_until(losses, z->k, z->units[u].tape_begin);
        reshard(z, u);
        finish_reducing(z, u + 1);
        reduce_gradients(z, u);
    }
    finish_reducing(z, 0);
}
