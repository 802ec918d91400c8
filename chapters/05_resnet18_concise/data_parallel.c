// data_parallel.c: see data_parallel.h.
#include "data_parallel.h"

#include "common/base/error.h"
#include "common/program/interrupt.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"

#include <math.h>
#include <string.h>

BatchNormMode batch_norm_mode(const char *name) {
    static const char *const names[] = {"local", "rank0", "averaged", "sync"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return (BatchNormMode)i;
    die("local, rank0, averaged or sync", "no such way to treat batch norm: '%s'", name);
}

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

// ## Training
//
// What chapter 4 wrote out for LeNet, for any network.

// The copies of one parameter on all devices, or their gradients.
static void copies_of(const DataParallel *dp, const Parameter *p, Tensor *copies[]) {
    for (int i = 0; i < dp->k; i++) copies[i] = parameter_data(p, dp->devices[i]);
}

static void gradients_of(const DataParallel *dp, const Parameter *p, Tensor *grads[]) {
    copies_of(dp, p, grads);
    for (int i = 0; i < dp->k; i++) grads[i] = grads[i]->grad;
}

void trainer_step(DataParallel *dp, float lr, int batch_size) {
    Parameters all = parameters_of(dp->net);
    for (int p = 0; p < all.n; p++) {
        Tensor *grads[MAX_DEVICES];
        if (!all.list[p]->trained) continue;
        gradients_of(dp, all.list[p], grads);
        allreduce(grads, dp->k);
    }
    for (int i = 0; i < dp->k; i++) sgd_step(dp->net, dp->devices[i], lr, batch_size);
}

void train_step_as(DataParallel *dp, const Shard shards[], const Tensor *X, const Tensor *y,
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
    Shard shards[MAX_DEVICES];
    for (int i = 0; i < dp->k; i++) shards[i] = shard_of(X->shape[0], dp->k, i);
    train_step_as(dp, shards, X, y, lr, losses);
}

// ## Batch norm's running statistics

static void broadcast_from_first(Tensor *const copies[], int k) {
    for (int i = 1; i < k; i++) tensor_copy(copies[i], copies[0]);
}

static void average(Tensor *const copies[], int k) {
    allreduce(copies, k);
    for (int i = 0; i < k; i++)
        launch(copies[i]->device, scale, .x = copies[i]->data, .factor = 1.0f / (float)k,
               .n = numel(copies[i]));
}

void share_statistics(DataParallel *dp) {
    if (dp->k == 1 || dp->bn == BN_LOCAL || dp->bn == BN_SYNC) return;
    Parameters all = parameters_of(dp->net);
    for (int i = 0; i < dp->k; i++) begin_step(dp->devices[i]); // allreduce needs room
    for (int p = 0; p < all.n; p++) {
        Tensor *copies[MAX_DEVICES];
        if (all.list[p]->trained) continue;
        copies_of(dp, all.list[p], copies);
        if (dp->bn == BN_RANK0)
            broadcast_from_first(copies, dp->k);
        else
            average(copies, dp->k);
    }
}

// ## Evaluation

double evaluate_accuracy_gpus(DataParallel *dp, DataIter *data_iter) {
    Tensor *correct[MAX_DEVICES], *X, *y;
    double total = 0;
    long observations = 0;
    int k = dp->k;
    share_statistics(dp);
    set_training(dp->net, false);
    set_grad_enabled(false);
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(dp->devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    data_iter_start(data_iter, 0);
    while (!interrupted() && data_iter_next(data_iter, &X, &y)) {
        Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *y_hat[MAX_DEVICES];
        for (int i = 0; i < k; i++) begin_step(dp->devices[i]);
        split_batch(X, y, dp->devices, k, X_shards, y_shards);
        forward_all(dp->net, X_shards, k, y_hat);
        for (int i = 0; i < k; i++) count_correct(correct[i], y_hat[i], y_shards[i]);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    set_training(dp->net, true);
    float counts[MAX_DEVICES];
    items(correct, k, counts);
    for (int i = 0; i < k; i++) {
        total += (double)counts[i];
        tensor_free(correct[i]);
    }
    return interrupted() ? NAN : total / (double)observations;
}

// ## Bytes

// What an allreduce of n floats moves between the devices, in all.
static uint64_t allreduce_total(const DataParallel *dp, size_t n) {
    uint64_t sent = 0;
    for (int i = 0; i < dp->k; i++) sent += allreduce_bytes(chosen_allreduce(), n, dp->k, i).sent;
    return sent;
}

// A batch norm of C channels sends 2 C + 1 floats forward and 2 C backward from each device to each
// other one. Its buffers, mean and variance, have 2 C.
uint64_t step_bytes(const DataParallel *dp) {
    Parameters all = parameters_of(dp->net);
    uint64_t bytes = 0, pairs = (uint64_t)(dp->k * (dp->k - 1));
    for (int p = 0; p < all.n; p++) {
        size_t n = numel(all.list[p]->start);
        bool is_mean = strstr(all.list[p]->name, "running_mean");
        if (all.list[p]->trained) bytes += allreduce_total(dp, n);
        if (is_mean && dp->bn == BN_SYNC) bytes += pairs * sizeof(float) * (4 * n + 1);
    }
    return bytes;
}

uint64_t statistics_bytes(const DataParallel *dp) {
    Parameters all = parameters_of(dp->net);
    uint64_t bytes = 0;
    for (int p = 0; p < all.n; p++) {
        if (all.list[p]->trained) continue;
        if (dp->bn == BN_RANK0) bytes += (uint64_t)(dp->k - 1) * tensor_bytes(all.list[p]->start);
        if (dp->bn == BN_AVERAGED) bytes += allreduce_total(dp, numel(all.list[p]->start));
    }
    return bytes;
}
