// gpu_towers.c: see gpu_towers.h.
#include "gpu_towers.h"

#include "common/base/error.h"
#include "common/device/trace.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

#include <stdlib.h>

static Tensor **places_for(Tensor *const vars[], int n, Device *device) {
    Tensor **places = xcalloc((size_t)n, sizeof *places);
    for (int v = 0; v < n; v++) {
        places[v] = tensor_of_shape(device, vars[v]->ndim, vars[v]->shape);
        tensor_fill(places[v], 0);
    }
    return places;
}

GpuTowers *gpu_towers_new(Device *const devices[], int k, Tensor **const vars[], int n,
                          Combine combine) {
    GpuTowers *t = xcalloc(1, sizeof *t);
    CHECK(k > 0 && k <= MAX_COMPUTING && n <= MOST_VARS, "room for the towers and variables");
    *t = (GpuTowers){.k = k, .n = n, .combine = combine};
    for (int i = 0; i < k; i++) {
        t->devices[i] = devices[i];
        t->vars[i] = vars[i];
        t->received[i] = places_for(vars[i], n, devices[0]);
    }
    t->sums = places_for(vars[0], n, devices[0]);
    synchronize_all();
    return t;
}

void gpu_towers_free(GpuTowers *t) {
    synchronize_all();
    for (int i = 0; i < t->k; i++) {
        free_params(t->received[i], t->n);
        free(t->received[i]);
    }
    free_params(t->sums, t->n);
    free(t->sums);
    free(t);
}

void gpu_towers_step(GpuTowers *t, Worker workers[], const Tensor *X, const Tensor *y, float lr) {
    Tensor *tower_inputs[MAX_DEVICES], *tower_labels[MAX_DEVICES];
    for (int i = 0; i < t->k; i++) begin_step(t->devices[i]);
    trace_label("load");
    split_batch(X, y, t->devices, t->k, tower_inputs, tower_labels);
    trace_label("send");
    send_variables_from_gpu(t);
    trace_label("compute");
    for (int i = 0; i < t->k; i++) {
        tensor_fill(workers[i].grads, 0);
        tower_gradients(&workers[i], tower_inputs[i], tower_labels[i]);
    }
    trace_label("update");
    update_on_gpu(t, lr);
    trace_label("");
}

uint64_t bytes_of_vars(Tensor *const vars[], int n) {
    uint64_t bytes = 0;
    for (int v = 0; v < n; v++) bytes += tensor_bytes(vars[v]);
    return bytes;
}
