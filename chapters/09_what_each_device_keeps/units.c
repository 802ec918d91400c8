// units.c: what a step does with a unit: forward, gather, reduce. The stages call these functions
// in their order.
#include "zero.h"

#include "common/base/error.h"
#include "common/device/trace.h"

// ## Forward

void forward_unit(Zero *z, int u, Tensor *Y[]) {
    Unit *unit = &z->units[u];
    if (zero_stages[z->stage].divides_parameters) check_gathered(z, u);
    trace_label("forward");
    unit->tape_begin = tape_length(z->devices[0]);
    if (z->recompute) {
        forward_recomputed(z, unit, Y);
        return;
    }
    for (int p = 0; p < unit->num_parts; p++) forward_part(&unit->parts[p], Y, z->k);
}

// ## Gradients

void allocate_gradients(Zero *z, int u) {
    for (int i = 0; i < z->k; i++) {
        Shard *s = &z->shards[u][i];
        s->full_grad = floats_on(z->devices[i], z->units[u].floats, MEMORY_GRADIENTS);
        tensor_fill(s->full_grad, 0);
        point_to(z, u, i);
    }
}

void make_room_to_receive(Zero *z, int u) {
    for (int i = 0; i < z->k; i++) {
        size_t floats = (size_t)(z->k - 1) * (size_t)own_part(z, u, i).count;
        z->shards[u][i].received = floats_on(z->devices[i], floats, MEMORY_ACTIVATION_GRADIENTS);
    }
}

void reduce_gradients(Zero *z, int u) {
    make_room_to_receive(z, u);
    UnitTensors t = tensors_of(z, u);
    // The gradients are complete when the compute queues reach this point.
    exchange_begin("exchange", z->devices, NULL, z->k);
    reduce_scatter(t.own_grad, t.full_grad, t.received, z->k);
    exchange_end();
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

// ## Parameters: what must hold

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

void check_all_resharded(const Zero *z) {
    for (int u = 0; u < z->num_units; u++)
        for (int i = 0; i < z->k; i++)
            if (z->shards[u][i].full || z->shards[u][i].full_grad)
                die("reshard() it after its forward pass, and again after its backward pass",
                    "the unit of %s is still gathered on %s at the end of the step",
                    unit_name(z, u), device_name(z->devices[i]));
}

// ## Parameters: gather late, free early

void unshard(Zero *z, int u) {
    if (u < 0 || u >= z->num_units) return; // there is no next one
    check_freed(z, u);
    for (int i = 0; i < z->k; i++) {
        z->shards[u][i].full = floats_on(z->devices[i], z->units[u].floats, MEMORY_PARAMETERS);
        point_to(z, u, i);
    }
    UnitTensors t = tensors_of(z, u);
    // Earlier kernels may still be using this memory.
    exchange_begin("exchange", z->devices, NULL, z->k);
    all_gather(t.full, t.own, z->k);
    exchange_end();
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

void gather_updated(Zero *z, int u) {
    UnitTensors t = tensors_of(z, u);
    trace_label("exchange");
    all_gather(t.full, t.own, z->k);
}
