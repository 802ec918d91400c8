// # Exercise 1: more devices
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 1: "Experiment
// with different epochs, batch sizes, and learning rates. Use more GPUs for computation. What
// happens if you try this with 16 GPUs?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-05-1                       the question, the answer, the evidence
//   make exercise-05-1 ARGS=--check          only check the solution: a second
//   make exercise-05-1 ARGS='--train-size 4096 --epochs 6'     longer, with more to see
//
// ResNet-18 on 1, 2, 4, 8 and 16 devices, all with the same minibatches of --batch-size images:
// what stays, what grows, what shrinks? Without 16 GPUs these are logical devices: they compute,
// hold and send what 16 GPUs would, only not faster. How much faster 16 would be, the modelled
// clock says (--machine). Images have 14 x 14 pixels, so that two minutes are enough.
#include "your_part.h"

#include <string.h>

// One pass over the data on the k devices of dp. data_iter_start(iter, epoch) begins it,
// data_iter_next() gets a minibatch. train_step() of chapter 5 trains on one and leaves the summed
// loss of shard i in losses[i], which item() reads. Returns the mean loss of an image.
double train_epoch(DataParallel *dp, DataIter *iter, int epoch, float lr) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    double total = 0;
    long images = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_step(dp, X, y, lr, losses);
        for (int i = 0; i < dp->k; i++) total += (double)item(losses[i]);
        images += X->shape[0];
    }
    return total / (double)images;
    // END SOLUTION
}

// The bytes that cross between the devices in one step, by the formulas. An allreduce of N bytes
// moves 2 (k-1) N of them in all; parameter_bytes() of a network says how many it has to sum. With
// BN_SYNC each device also sends 4 C + 1 floats to each other one for a batch norm of C channels:
// these are the entries of parameters_of(net) whose name ends with "running_mean", C elements each
// (numel(entry->start)).
uint64_t bytes_of_step(const Module *net, int k, BatchNormMode bn) {
    // SOLUTION (starter: return 0;)
    Parameters all = parameters_of(net);
    uint64_t others = (uint64_t)k - 1, bytes = 2 * others * parameter_bytes(net);
    for (int p = 0; p < all.n; p++)
        if (bn == BN_SYNC && strstr(all.list[p]->name, "running_mean"))
            bytes += (uint64_t)k * others * sizeof(float) * (4 * numel(all.list[p]->start) + 1);
    return bytes;
    // END SOLUTION
}
