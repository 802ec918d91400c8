// # Exercise 1: more devices
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 1: "Experiment
// with different epochs, batch sizes, and learning rates. Use more GPUs for computation. What
// happens if you try this with 16 GPUs?"
//
// Difficulty: ★★☆☆
//
// **Aim.** ResNet-18 is trained on 1, 2, 4, 8 and 16 devices, always with the same minibatches, of
// `--batch-size` images for all devices together. What stays the same, what grows, what shrinks?
// Without 16 GPUs these are logical devices: they compute, hold and send what 16 GPUs would, only
// not faster; how much faster 16 would be, the modelled clock says (`--machine`). Images have
// 14 x 14 pixels here, a quarter of Fashion-MNIST's, to save time.
//
// **Your task.** Write `train_epoch()`, a pass over the data, and `bytes_of_step()`, the formula
// for the bytes that the devices send each other.
//
// **How it is checked.** Small networks are trained on images that are drawn, on 1 to 16 devices:
// what the devices received, your loss and the parameters at the end must be those of the solution,
// and so must the bytes that you say.
//
// **How to run.**
//
//     make exercise-05-1 ARGS=--check          the check alone: seconds
//     make exercise-05-1                       the check, then the experiment: about two minutes
//     make exercise-05-1 ARGS='--train-size 4096 --epochs 6'     longer, with more to see
//
// **What to hand in.** This file, and your answer to the book's question: what 16 devices do to the
// loss, to the bytes, to the memory of each device and to the time of a step.
#include "your_part.h"

#include <string.h>

// `train_epoch()` makes one pass over the data on the k devices of `dp`, and returns the mean loss
// of an image. `data_iter_start(iter, epoch)` begins the pass, `data_iter_next()` gets a minibatch.
// Chapter 5's `train_step()` trains on it and leaves the summed loss of shard i in `losses[i]`,
// which `item()` reads.
double train_epoch(DataParallel *dp, DataIter *iter, int epoch, float lr) {
    // YOUR CODE HERE
    return 0;
}

// `bytes_of_step()` returns how many bytes cross between the devices in one step, by two formulas:
//
// - An allreduce of N bytes moves 2 (k-1) N bytes in all; `parameter_bytes(net)` is N.
// - With synchronised batch norm (`BN_SYNC`) each device also sends 4 C + 1 floats to each other
//   device, for every batch norm of C channels. To find these, look through the list that
//   `parameters_of(net)` returns: each batch norm has one entry whose name ends with
//   "running_mean", with C elements (`numel(entry->start)`).
uint64_t bytes_of_step(const Module *net, int k, BatchNormMode bn) {
    // YOUR CODE HERE
    return 0;
}
