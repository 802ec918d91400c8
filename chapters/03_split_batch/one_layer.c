// one_layer.c: the gradients of the shards of a minibatch, each computed on its device.
#include "one_layer.h"

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "common/base/error.h"
#include "common/device/trace.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "shards.h"
#include "split_batch.h"

#include <stdlib.h>

void one_layer_new(Tensor *params[2], uint64_t seed) {
    params[0] = tensor_new(host(), PIXELS, CLASSES);
    params[1] = tensor_new(host(), CLASSES);
    fill_normal(params[0]->data, numel(params[0]), 0.1, seed, STREAM_PARAMS);
    tensor_fill(params[1], 0);
}

// Enqueued, not waited for: afterwards params have the gradient of the shard's summed loss.
static void enqueue_gradient(Tensor *X_shard, Tensor *y_shard, Tensor *const params[2]) {
    Tensor *rows = reshape(X_shard, X_shard->shape[0], PIXELS);
    Tensor *scores = add_bias(mm(rows, params[0]), params[1]);
    backward(sum(cross_entropy(scores, y_shard)));
}

static void read_gradient(Tensor *const params[2], double g[]) {
    size_t count;
    float *values = values_of_all((Tensor *[]){params[0]->grad, params[1]->grad}, 2, &count);
    for (size_t j = 0; j < count; j++) g[j] = (double)values[j];
    free(values);
}

ShardGradient *gradients_of_shards(const Tensor *X, const Tensor *y, int n, int k,
                                   Tensor *const params[2]) {
    static long step;
    Tensor first_X = *X, first_y = *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    Tensor *device_params[MAX_DEVICES][2];
    Device *devices[MAX_DEVICES];
    ShardGradient *gradients = xmalloc(sizeof(ShardGradient) * (size_t)k);
    first_X.shape[0] = first_y.shape[0] = n;

    open_step(devices, k);
    trace_step(++step);
    for (int i = 0; i < k; i++) get_params(params, 2, devices[i], device_params[i]);
    split_batch(&first_X, &first_y, devices, k, X_shards, y_shards);
    for (int i = 0; i < k; i++) enqueue_gradient(X_shards[i], y_shards[i], device_params[i]);
    // Only now: to read waits until a device has finished, and the next could not begin before.
    for (int i = 0; i < k; i++) {
        gradients[i].rows = X_shards[i]->shape[0];
        read_gradient(device_params[i], gradients[i].g);
        free_params(device_params[i], 2);
    }
    trace_step(0);
    return gradients;
}
