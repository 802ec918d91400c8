// zero.c: what the stages share. Their steps are in zero0.c (DDP), zero1.c, zero2.c and zero3.c.
#include "zero.h"

#include "common/base/error.h"
#include "common/device/trace.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>

// Which of moments, gradients and parameters a stage divides.
const StageKind zero_stages[NUM_STAGES] = {
    {"DDP", false, false, false, zero0_step},
    {"ZeRO-1", true, false, false, zero1_step},
    {"ZeRO-2", true, true, false, zero2_step},
    {"ZeRO-3", true, true, true, zero3_step},
};

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

void free_in_order(Tensor **t) {
    device_free_in_order((*t)->device, (*t)->data);
    (*t)->data = NULL;
    tensor_free(*t);
    *t = NULL;
}

void sum_losses(const Zero *z, Tensor *const y_hat[], Tensor *const y[], Tensor *losses[]) {
    for (int i = 0; i < z->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y[i]));
    trace_label("backward"); // from here on
}

void update_own(const Zero *z, float lr, int batch_size) {
    trace_label("update");
    for (int i = 0; i < z->k; i++) adam_step(z->adam[i], lr, batch_size);
}

// ## A step

void zero_step(Zero *z, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
               int batch_size, Tensor *losses[]) {
    zero_stages[z->stage].step(z, X_shards, y_shards, lr, batch_size, losses);
}

void zero_train_batch(Zero *z, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    for (int i = 0; i < z->k; i++) begin_step(z->devices[i]);
    split_batch(X, y, z->devices, z->k, X_shards, y_shards);
    zero_step(z, X_shards, y_shards, lr, X->shape[0], losses);
}

void zero_read(const Zero *z, float *values) {
    for (int u = 0; u < z->num_units; u++)
        for (int i = 0; i < z->k; i++)
            tensor_read(z->shards[u][i].own,
                        values + z->units[u].first + (size_t)own_part(z, u, i).first);
}
