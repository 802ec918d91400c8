// data_parallel.c: all that has to do with k devices, whatever the network is.
#include "data_parallel.h"

#include "common/program/interrupt.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>

DataParallel data_parallel(Module *net, Device *const devices[], int k, BatchNormMode bn) {
    DataParallel dp = {.net = net, .k = k, .bn = bn};
    share_cores(devices, k);
    for (int i = 0; i < k; i++) {
        dp.devices[i] = devices[i];
        place_on(net, devices[i]);
    }
    set_sync_batch_norm(net, bn == BN_SYNC);
    set_training(net, true);
    return dp;
}

enum { BUCKET_BYTES = 25 << 20 };

// How many of the n floats are in the bucket that begins at number `first`.
static size_t bucket_size(size_t n, size_t first) {
    const size_t most = BUCKET_BYTES / sizeof(float);
    return n - first < most ? n - first : most;
}

void allreduce_in_buckets(Tensor *const flats[], int k) {
    size_t n = numel(flats[0]);
    for (size_t first = 0, size; first < n; first += size) {
        Tensor *bucket[MAX_DEVICES];
        size = bucket_size(n, first);
        for (int i = 0; i < k; i++)
            bucket[i] = tensor_slice(flats[i], first, 1, (const int[]){(int)size});
        allreduce(bucket, k);
        for (int i = 0; i < k; i++) tensor_free(bucket[i]); // only the names of the slices
    }
}

uint64_t bytes_in_buckets(size_t n, int k) {
    uint64_t sent = 0;
    for (size_t first = 0, size; first < n; first += size) {
        size = bucket_size(n, first);
        for (int i = 0; i < k; i++) sent += allreduce_bytes(chosen_allreduce(), size, k, i).sent;
    }
    return sent;
}

uint64_t step_bytes(const DataParallel *dp) {
    size_t n = numel(flat_parameters(dp->net, dp->devices[0]).grad);
    return bytes_in_buckets(n, dp->k) + synchronising_bytes(dp);
}

void trainer_step(DataParallel *dp, float lr, int batch_size) {
    Tensor *grads[MAX_DEVICES] = {NULL};
    for (int i = 0; i < dp->k; i++) grads[i] = flat_parameters(dp->net, dp->devices[i]).grad;
    allreduce_in_buckets(grads, dp->k);
    for (int i = 0; i < dp->k; i++) sgd_step(dp->net, dp->devices[i], lr, batch_size);
}

void train_step_as(DataParallel *dp, const Range shards[], const Tensor *X, const Tensor *y,
                   float lr, Tensor *losses[]) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *y_hat[MAX_DEVICES];
    int k = dp->k;
    for (int i = 0; i < k; i++) begin_step(dp->devices[i]);
    split_batch_as(shards, X, y, dp->devices, k, X_shards, y_shards);
    forward_all(dp->net, X_shards, k, y_hat);
    for (int i = 0; i < k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    backward_all(losses, k);
    trainer_step(dp, lr, X->shape[0]);
}

void train_step(DataParallel *dp, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]) {
    Range shards[MAX_DEVICES];
    for (int i = 0; i < dp->k; i++) shards[i] = equal_range(X->shape[0], dp->k, i);
    train_step_as(dp, shards, X, y, lr, losses);
}

// Each device counts the correct answers for its shards. The host adds the counts at the end.
static double count_all_correct(DataParallel *dp, DataIter *iter, Tensor *const correct[]) {
    Tensor *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *y_hat[MAX_DEVICES];
    float counts[MAX_DEVICES];
    double total = 0;
    long images = 0;
    data_iter_start(iter, 0);
    while (!interrupted() && data_iter_next(iter, &X, &y)) {
        for (int i = 0; i < dp->k; i++) begin_step(dp->devices[i]);
        split_batch(X, y, dp->devices, dp->k, X_shards, y_shards);
        forward_all(dp->net, X_shards, dp->k, y_hat);
        for (int i = 0; i < dp->k; i++) count_correct(correct[i], y_hat[i], y_shards[i]);
        images += X->shape[0];
    }
    items(correct, dp->k, counts);
    for (int i = 0; i < dp->k; i++) total += (double)counts[i];
    return total / (double)images;
}

double evaluate_accuracy_gpus(DataParallel *dp, DataIter *data_iter) {
    Tensor *correct[MAX_DEVICES];
    share_statistics(dp);
    set_training(dp->net, false);
    set_grad_enabled(false);
    for (int i = 0; i < dp->k; i++) {
        correct[i] = tensor_new(dp->devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    double accuracy = count_all_correct(dp, data_iter, correct);
    for (int i = 0; i < dp->k; i++) tensor_free(correct[i]);
    set_grad_enabled(true);
    set_training(dp->net, true);
    return interrupted() ? NAN : accuracy;
}
