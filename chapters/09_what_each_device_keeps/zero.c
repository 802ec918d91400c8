// zero.c: a step in each stage, put together from the other files.
#include "zero.h"

#include "common/base/error.h"
#include "common/device/trace.h"

#include <stdlib.h>
#include <string.h>

const char *const stage_names[NUM_STAGES] = {"DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"};

static Adam *adam_of(const Zero *z, int i, AdamOptions options) {
    Tensor **own = xmalloc(sizeof *own * (size_t)z->num_units);
    for (int u = 0; u < z->num_units; u++) own[u] = z->shards[u][i].own;
    Adam *adam = adam_new(own, z->num_units, options);
    free(own);
    return adam;
}

Zero *zero_new(Module *net, Device *const devices[], int k, Stage stage, AdamOptions options) {
    Zero *z = xcalloc(1, sizeof *z);
    *z = (Zero){.net = net, .k = k, .stage = stage};
    z->devices = xmalloc(sizeof *devices * (size_t)k);
    memcpy(z->devices, devices, sizeof *devices * (size_t)k);
    z->adam = xcalloc((size_t)k, sizeof *z->adam);
    share_cores(devices, k);
    set_training(net, true);
    make_units(z);
    if (stage == STAGE_DDP)
        z->ddp = ddp_new(net, devices, k, (DdpOptions){.keep_buffers = true});
    else
        for (int i = 0; i < k; i++) place_without_memory(net, devices[i]);
    make_shards(z);
    for (int i = 0; i < k; i++) z->adam[i] = adam_of(z, i, options);
    return z;
}

void zero_free(Zero *z) {
    synchronize_all();
    for (int i = 0; i < z->k; i++) adam_free(z->adam[i]);
    free_shards(z);
    if (z->ddp) ddp_free(z->ddp);
    free(z->adam);
    free(z->units);
    free(z->parts);
    free(z->devices);
    free(z);
}

// ## What the stages share

Tensor *room_to_receive(const Zero *z, int u, int j) {
    size_t floats = (size_t)(z->k - 1) * (size_t)own_part(z, u, j).count;
    return floats_on(z->devices[j], floats, MEMORY_ACTIVATION_GRADIENTS);
}

void free_in_order(Tensor **t) {
    device_free_in_order((*t)->device, (*t)->data);
    (*t)->data = NULL;
    tensor_free(*t);
    *t = NULL;
}

void begin_exchange(void) {
    trace_label("exchange");
    communicate_begin();
}

void end_exchange(void) { communicate_end(); }

void forward_unit(Zero *z, int u, Tensor *Y[]) {
    Unit *unit = &z->units[u];
    if (z->stage == ZERO_3) check_gathered(z, u);
    trace_label("forward");
    unit->tape_begin = tape_length(z->devices[0]);
    if (z->recompute) {
        forward_recomputed(z, unit, Y);
        return;
    }
    for (int p = 0; p < unit->num_parts; p++) forward_part(&unit->parts[p], Y, z->k);
}

// ## A step

static void forward_pass(Zero *z, Tensor *const X[], Tensor *Y[]) {
    for (int i = 0; i < z->k; i++) Y[i] = X[i];
    if (z->stage == ZERO_3)
        zero3_forward(z, Y);
    else
        for (int u = 0; u < z->num_units; u++) forward_unit(z, u, Y);
}

static void backward_pass(Zero *z, Tensor *const losses[]) {
    trace_label("backward");
    if (z->stage == STAGE_DDP) ddp_backward(z->ddp, losses);
    if (z->stage == ZERO_1) backward_all(losses, z->k);
    if (z->stage == ZERO_2) zero2_backward(z, losses);
    if (z->stage == ZERO_3) zero3_backward(z, losses);
}

static void update(Zero *z, float lr, int batch_size) {
    trace_label("update");
    if (z->stage == ZERO_1) {
        zero1_step(z, lr, batch_size);
        return;
    }
    for (int i = 0; i < z->k; i++) adam_step(z->adam[i], lr, batch_size);
    if (z->stage == ZERO_2) gather_updated(z);
}

static void check_all_resharded(const Zero *z) {
    for (int u = 0; z->stage == ZERO_3 && u < z->num_units; u++)
        for (int i = 0; i < z->k; i++)
            if (z->shards[u][i].full || z->shards[u][i].full_grad)
                die("reshard() it after its forward pass, and again after its backward pass",
                    "the unit of %s is still gathered on %s at the end of the step",
                    unit_name(z, u), device_name(z->devices[i]));
}

void zero_step(Zero *z, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
               int batch_size, Tensor *losses[]) {
    Tensor *y_hat[MAX_DEVICES];
    forward_pass(z, X_shards, y_hat);
    for (int i = 0; i < z->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    backward_pass(z, losses);
    update(z, lr, batch_size);
    check_all_resharded(z);
}

void zero_read(const Zero *z, float *values) {
    for (int u = 0; u < z->num_units; u++)
        for (int i = 0; i < z->k; i++)
            tensor_read(z->shards[u][i].own,
                        values + z->units[u].first + (size_t)own_part(z, u, i).first);
}
