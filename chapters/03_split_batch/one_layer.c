// one_layer.c: a network of one layer, so small that its gradients can be looked at. Each device
// computes the gradient of the sum of its rows' losses.
#include "one_layer.h"

#include "common/book.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "split_batch.h"

void one_layer_new(Tensor *params[2], uint64_t seed) {
    params[0] = tensor_new(host(), PIXELS, CLASSES);
    params[1] = tensor_new(host(), CLASSES);
    fill_normal(params[0]->data, numel(params[0]), 0.1, seed, STREAM_PARAMS);
    tensor_fill(params[1], 0);
}

void open_step(Device *devices[], int k) {
    open_devices(devices, k);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
}

static void gradient_of_sum(Tensor *X_shard, Tensor *y_shard, Tensor *const params[2]) {
    Tensor *rows = reshape(X_shard, X_shard->shape[0], PIXELS);
    Tensor *scores = add_bias(mm(rows, params[0]), params[1]);
    backward(sum(cross_entropy(scores, y_shard)));
}

static void read_gradient(Tensor *const params[2], float g[]) {
    size_t count;
    float *values = values_of_all((Tensor *[]){params[0]->grad, params[1]->grad}, 2, &count);
    memcpy(g, values, count * sizeof(float));
    free(values);
}

ShardGradient *gradients_of_shards(const Tensor *X, const Tensor *y, int n, int k,
                                   Tensor *const params[2]) {
    static long step;
    Tensor first_X = rows_of(X, (Range){0, n}), first_y = rows_of(y, (Range){0, n});
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *device_params[MAX_DEVICES][2];
    Device *devices[MAX_DEVICES];
    ShardGradient *gradients = xmalloc(sizeof(ShardGradient) * (size_t)k);
    open_step(devices, k);
    trace_step(++step);
    for (int i = 0; i < k; i++) get_params(params, 2, devices[i], device_params[i]);
    split_batch(&first_X, &first_y, devices, k, X_shards, y_shards);
    for (int i = 0; i < k; i++) gradient_of_sum(X_shards[i], y_shards[i], device_params[i]);
    // Reading waits, so it must come after all devices have their work.
    for (int i = 0; i < k; i++) {
        gradients[i].rows = X_shards[i]->shape[0];
        read_gradient(device_params[i], gradients[i].g);
        free_params(device_params[i], 2);
    }
    trace_step(0);
    return gradients;
}
