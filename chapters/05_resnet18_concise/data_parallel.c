// data_parallel.c: all that has to do with k devices, whatever the network is. A `DataParallel` is
// a network with a replica on each of k devices, as PyTorch's `torch.nn.DataParallel`.
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

// ## One training step
//
// What chapter 4 wrote out for LeNet, for any network: split the minibatch, go forward and backward
// on all devices, sum the gradients, update.
//
// Gradients are exchanged in *buckets* of 25 MiB, as PyTorch's `DistributedDataParallel` does. One
// parameter at a time would mean many exchanges, most of them tiny. And a bucket can be sent while
// the gradients of the next are still computed; here that is not done, to keep the step simple.
enum { BUCKET_BYTES = 25 << 20 };

// The bucket that begins at float number `first` of n: so many floats.
static size_t bucket_size(size_t n, size_t first) {
    const size_t most = BUCKET_BYTES / sizeof(float);
    return n - first < most ? n - first : most;
}

// allreduce() of flat vectors, one on each device.
static void allreduce_in_buckets(Tensor *const flats[], int k) {
    size_t n = numel(flats[0]);
    for (size_t first = 0, size; first < n; first += size) {
        Tensor *buckets[MAX_DEVICES];
        size = bucket_size(n, first);
        for (int i = 0; i < k; i++)
            buckets[i] = tensor_slice(flats[i], first, 1, (const int[]){(int)size});
        allreduce(buckets, k);
        for (int i = 0; i < k; i++) tensor_free(buckets[i]);
    }
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

// ## Batch normalisation's running statistics
//
// Batch normalisation is the one layer in which the images of a minibatch depend on each other. In
// training it subtracts the *mean* of each channel over the minibatch, and divides by the standard
// deviation. In evaluation it uses *running statistics* instead: moving averages of these means and
// variances, which are updated in each training step, by a tenth. With k devices there are two
// questions. What is "the minibatch", the shard of a device or all shards together? And which
// running statistics does the network have, if each device has seen other images?
//
// | `--bn`     | training: mean of | evaluation: statistics of  | found in                  |
// |------------|-------------------|----------------------------|---------------------------|
// | `local`    | the own shard     | each device itself         | the book's MXNet          |
// | `rank0`    | the own shard     | device 0 (its *rank* is 0) | the book's PyTorch        |
// | `averaged` | the own shard     | the mean over all devices  | here, if nothing is said  |
// | `sync`     | all shards        | any device: all are equal  | PyTorch's `SyncBatchNorm` |
//
// Only with `sync` do k devices compute what one computes. It also costs two exchanges in each
// layer of batch normalisation. The others train as if minibatches were as small as the shards,
// which matters when a shard has only a few images. `averaged` uses what all devices saw, costs
// nothing in training, and all devices evaluate, and save, the same.

static void broadcast_from_first(Tensor *const copies[], int k) {
    for (int i = 1; i < k; i++) tensor_copy(copies[i], copies[0]);
}

static void average(Tensor *const copies[], int k) {
    allreduce_in_buckets(copies, k);
    for (int i = 0; i < k; i++)
        launch(copies[i]->device, scale, .x = copies[i]->data, .factor = 1.0f / (float)k,
               .n = numel(copies[i]));
}

void share_statistics(DataParallel *dp) {
    if (dp->k == 1 || dp->bn == BN_LOCAL || dp->bn == BN_SYNC) return;
    Tensor *buffers[MAX_DEVICES] = {NULL};
    for (int i = 0; i < dp->k; i++) {
        begin_step(dp->devices[i]); // allreduce needs room
        buffers[i] = flat_parameters(dp->net, dp->devices[i]).buffers;
    }
    if (dp->bn == BN_RANK0)
        broadcast_from_first(buffers, dp->k);
    else
        average(buffers, dp->k);
}

// ## Evaluating in parallel
//
// The book's `evaluate_accuracy_gpus`: each device counts the correct answers for its shard of each
// minibatch of test images. The host adds these counts once, at the end.

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

// ## Bytes by the formulas
//
// The program counts the bytes that cross between devices, and checks them against these functions.

// What an exchange of n floats in buckets moves between the devices, in all.
static uint64_t total_of_buckets(const DataParallel *dp, size_t n) {
    uint64_t sent = 0;
    for (size_t first = 0, size; first < n; first += size) {
        size = bucket_size(n, first);
        for (int i = 0; i < dp->k; i++)
            sent += allreduce_bytes(chosen_allreduce(), size, dp->k, i).sent;
    }
    return sent;
}

// A batch norm of C channels sends 2 C + 1 floats forward and 2 C backward from each device to each
// other one. Its buffers, mean and variance, have 2 C.
uint64_t step_bytes(const DataParallel *dp) {
    Parameters all = parameters_of(dp->net);
    uint64_t pairs = (uint64_t)(dp->k * (dp->k - 1));
    uint64_t bytes = total_of_buckets(dp, numel(flat_parameters(dp->net, dp->devices[0]).grad));
    for (int p = 0; p < all.n; p++) {
        bool is_mean = strstr(all.list[p]->name, "running_mean");
        if (is_mean && dp->bn == BN_SYNC)
            bytes += pairs * sizeof(float) * (4 * numel(all.list[p]->start) + 1);
    }
    return bytes;
}

uint64_t statistics_bytes(const DataParallel *dp) {
    const Tensor *buffers = flat_parameters(dp->net, dp->devices[0]).buffers;
    if (dp->bn == BN_RANK0) return (uint64_t)(dp->k - 1) * tensor_bytes(buffers);
    return dp->bn == BN_AVERAGED ? total_of_buckets(dp, numel(buffers)) : 0;
}
