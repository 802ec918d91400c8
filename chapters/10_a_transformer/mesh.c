// mesh.c: data parallelism between networks that are split; see mesh.h.
#include "mesh.h"

#include <stdlib.h>
#include <string.h>
#include "common/base/error.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

Mesh *mesh_new(VitOptions options, Device *const devices[], int data, int tensor,
               const float *start) {
    CHECK(data >= 1 && data <= MOST_SPLIT, "1 to 8 networks share a minibatch");
    Mesh *m = xcalloc(1, sizeof *m);
    m->data = options.data = data;
    m->tensor = tensor;
    for (int d = 0; d < data; d++)
        m->nets[d] = vit_new(options, devices + d * tensor, tensor, start);
    share_cores(devices, data * tensor);
    return m;
}

void mesh_free(Mesh *m) {
    for (int d = 0; d < m->data; d++) vit_free(m->nets[d]);
    free(m);
}

// Device t of all networks has the same part of the parameters.
static void sum_over_networks(Mesh *m, int t) {
    Tensor *gradients[MOST_SPLIT];
    for (int d = 0; d < m->data; d++) gradients[d] = m->nets[d]->shards[t].flat->grad;
    sum_in_halves(gradients, m->data);
}

void mesh_train_batch(Mesh *m, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]) {
    int images = X->shape[0];
    for (int d = 0; d < m->data; d++)
        vit_gradients(m->nets[d], X, y, equal_range(images, m->data, d), losses + d * m->tensor);
    for (int t = 0; t < m->tensor; t++) sum_over_networks(m, t);
    trace_label("update");
    for (int d = 0; d < m->data; d++)
        for (int t = 0; t < m->tensor; t++) adam_step(m->nets[d]->shards[t].adam, lr, images);
}

static bool equal_tensors(const Tensor *a, const Tensor *b) {
    float *of_a = tensor_values(a), *of_b = tensor_values(b);
    bool equal = memcmp(of_a, of_b, tensor_bytes(a)) == 0;
    free(of_a);
    free(of_b);
    return equal;
}

bool mesh_copies_are_equal(const Mesh *m) {
    bool equal = true;
    for (int d = 0; d < m->data; d++) {
        equal = equal && vit_copies_are_equal(m->nets[d]);
        for (int t = 0; t < m->tensor; t++)
            equal = equal && equal_tensors(m->nets[d]->shards[t].flat, m->nets[0]->shards[t].flat);
    }
    return equal;
}

size_t mesh_bytes(const Mesh *m, int i, int images) {
    int d = i / m->tensor, t = i % m->tensor;
    const Vit *v = m->nets[d];
    size_t own = numel(v->shards[t].flat);
    return vit_bytes(&v->options, m->tensor, t, (int)equal_range(images, m->data, d).count) +
           allreduce_sharded_floats(own, m->data, d).sent * sizeof(float);
}
