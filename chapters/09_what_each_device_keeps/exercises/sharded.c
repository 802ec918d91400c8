// sharded.c: see sharded.h.
#include "sharded.h"

#include "common/base/error.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>

static Tensor *part_of(const Tensor *flat, size_t first, Range part) {
    return tensor_slice(flat, first + (size_t)part.first, 1, (int[]){(int)part.count});
}

static Tensor *zeros(Device *device, long n) {
    Tensor *t = tensor_new(device, (int)n);
    tensor_fill(t, 0);
    return t;
}

static void make_shard(Sharded *s, const Parameter *parameter, int p, int i, bool apart) {
    Device *device = s->devices[i];
    FlatParameters flat = flat_parameters(s->net, device);
    long n = (long)numel(parameter->start);
    Range all = {0, n}, part = s->divided[p] ? equal_range(n, s->k, i) : all;
    s->params[p][i] = part_of(flat.data, parameter->first, all);
    s->grads[p][i] = part_of(flat.grad, parameter->first, all);
    bool slices = !apart || !s->divided[p];
    s->own[p][i] = slices ? part_of(flat.data, parameter->first, part) : zeros(device, part.count);
    s->own_grads[p][i] =
        slices ? part_of(flat.grad, parameter->first, part) : zeros(device, part.count);
    s->moments[p][i] = zeros(device, part.count);
    s->received[p][i] = tensor_new(device, (s->k - 1) * (int)part.count);
}

Sharded *sharded_new(Module *net, int k, size_t smallest, bool apart) {
    Sharded *s = xcalloc(1, sizeof *s);
    Parameters all = parameters_of(net);
    *s = (Sharded){.net = net, .k = k, .n = all.n};
    CHECK(k <= MOST_SHARDS && all.n <= MOST_TENSORS, "room for devices and parameters");
    open_devices(s->devices, k);
    for (int i = 0; i < k; i++) {
        place_on(net, s->devices[i]);
        s->squares[i] = tensor_new(s->devices[i], 1);
        for (int p = 0; p < all.n; p++) {
            s->divided[p] = numel(all.list[p]->start) >= smallest;
            make_shard(s, all.list[p], p, i, apart);
        }
    }
    return s;
}

void sharded_free(Sharded *s) {
    synchronize_all();
    for (int i = 0; i < s->k; i++) {
        tensor_free(s->squares[i]);
        for (int p = 0; p < s->n; p++) {
            Tensor *all[] = {s->params[p][i],    s->grads[p][i],   s->own[p][i],
                             s->own_grads[p][i], s->moments[p][i], s->received[p][i]};
            for (int t = 0; t < 6; t++) tensor_free(all[t]);
        }
    }
    restart(s->net);
    free(s);
}

float compute_gradients(Sharded *s, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MOST_SHARDS], *y_shards[MOST_SHARDS], *losses[MOST_SHARDS];
    float values[MOST_SHARDS], total = 0;
    for (int i = 0; i < s->k; i++) begin_step(s->devices[i]);
    split_batch(X, y, s->devices, s->k, X_shards, y_shards);
    forward_all(s->net, X_shards, s->k, losses);
    for (int i = 0; i < s->k; i++) losses[i] = sum(cross_entropy(losses[i], y_shards[i]));
    items(losses, s->k, values);
    backward_all(losses, s->k);
    synchronize_all();
    for (int i = 0; i < s->k; i++) total += values[i];
    return total / (float)X->shape[0];
}

void add_squares(Tensor *total, const Tensor *t) {
    int n = (int)numel(t);
    launch(t->device, gemm, .A = t->data, .B = t->data, .C = total->data, .beta = 1, .M = 1, .N = 1,
           .K = n);
}

void momentum_step(Tensor *param, Tensor *grad, Tensor *moment, float lr, float factor) {
    size_t n = numel(param);
    launch(param->device, scale, .x = moment->data, .factor = 0.9f, .n = n);
    launch(param->device, scale, .x = grad->data, .factor = factor, .n = n);
    launch(param->device, add, .y = moment->data, .x = grad->data, .n = n);
    tensor_copy(grad, moment);
    launch(param->device, sgd, .param = param->data, .grad = grad->data, .lr = lr, .batch_size = 1,
           .n = n);
}
