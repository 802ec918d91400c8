// servers.c: which server holds which parameters, and how they are updated.
#include "servers.h"

#include "common/base/error.h"
#include "common/tensor/functional.h"

#include <stdlib.h>

Servers *servers_new(Device *const devices[], int S, int W, uint64_t seed) {
    CHECK(S > 0 && S <= MOST_SERVERS && W > 0 && W <= MOST_WORKERS, "1 to 64 servers and workers");
    Servers *v = xcalloc(1, sizeof *v);
    *v = (Servers){.S = S, .W = W, .per_update = W, .batch_size = 1};
    Worker first = worker_new(devices[0], seed);
    for (int s = 0; s < S; s++) {
        v->devices[s] = devices[s];
        v->keys[s] = equal_range((long)lenet_floats(), S, s);
        int n = (int)v->keys[s].count;
        v->params[s] = tensor_new(devices[s], n);
        v->sum[s] = tensor_new(devices[s], n);
        tensor_fill(v->sum[s], 0);
        for (int w = 0; w < W; w++) v->received[s][w] = tensor_new(devices[s], n);
        device_copy(devices[s], v->params[s]->data, devices[0],
                    first.params->data + v->keys[s].first, tensor_bytes(v->params[s]));
    }
    synchronize_all();
    worker_free(&first);
    return v;
}

void servers_free(Servers *v) {
    synchronize_all();
    for (int s = 0; s < v->S; s++) {
        tensor_free(v->params[s]);
        tensor_free(v->sum[s]);
        for (int w = 0; w < v->W; w++) tensor_free(v->received[s][w]);
    }
    free(v);
}

void servers_push(Servers *v, int w, Worker *worker) {
    CHECK(!v->waits[w], "the last push of a worker is applied before its next one comes");
    for (int s = 0; s < v->S; s++)
        device_copy(v->devices[s], v->received[s][w]->data, worker->device,
                    worker->grads->data + v->keys[s].first, tensor_bytes(v->received[s][w]));
    tensor_fill(worker->grads, 0);
    v->based_on[w] = worker->based_on;
    v->waits[w] = true;
    if (++v->waiting == v->per_update) servers_update(v);
}

void servers_drop(Servers *v, Worker *worker) {
    tensor_fill(worker->grads, 0);
    v->dropped++;
}

void servers_pull(Servers *v, Worker *worker) {
    for (int s = 0; s < v->S; s++)
        device_copy(worker->device, worker->params->data + v->keys[s].first, v->devices[s],
                    v->params[s]->data, tensor_bytes(v->params[s]));
    worker->based_on = v->applied;
}

void staleness_add(Staleness *s, long stale) {
    s->pushes[stale < MOST_STALE ? stale : MOST_STALE]++;
    s->count++;
    s->sum += stale;
    if (stale > s->most) s->most = stale;
}

double staleness_mean(const Staleness *s) {
    return s->count > 0 ? (double)s->sum / (double)s->count : 0;
}

static void add_push(Servers *v, int w, long stale) {
    staleness_add(&v->staleness, stale);
    for (int s = 0; s < v->S; s++) {
        Tensor *received = v->received[s][w];
        if (v->lr_by_staleness && stale > 1)
            launch(v->devices[s], scale, .x = received->data, .factor = 1 / (float)stale,
                   .n = numel(received));
        launch(v->devices[s], add, .y = v->sum[s]->data, .x = received->data, .n = numel(received));
    }
}

// Waiting pushes are added up in the order of the workers' numbers, not of arrival. Then they are
// applied as one gradient. `sgd` sets the sum to zero for the next update.
void servers_update(Servers *v) {
    long before = v->applied;
    for (int w = 0; w < v->W; w++) {
        if (!v->waits[w]) continue;
        add_push(v, w, before - v->based_on[w]);
        v->waits[w] = false;
        v->applied++;
    }
    for (int s = 0; s < v->S; s++)
        launch(v->devices[s], sgd, .param = v->params[s]->data, .grad = v->sum[s]->data,
               .lr = v->lr, .batch_size = v->batch_size, .n = numel(v->sum[s]));
    v->waiting = 0;
}
