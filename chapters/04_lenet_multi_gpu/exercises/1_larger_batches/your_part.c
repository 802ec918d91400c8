// # Exercise 1: minibatches of k*b images on k devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 1: "When training on k GPUs, change
// the minibatch size from b to k*b, i.e., scale it up by the number of GPUs."
//
// Difficulty: ★★☆☆
//
// **Aim.** Chapter 4 divides a minibatch: the more devices there are, the fewer images each has to
// work on. Here the minibatch grows with the devices, so each of them has b images in every step
// and is as busy as one alone. But larger minibatches also mean fewer updates in an epoch. What
// does that do to the accuracy, and does a larger learning rate make up for it?
//
// **Your task.** Write `train_epoch()` below; ten lines are enough.
//
// **How it is checked.** 1 to 4 devices train LeNet on images that are drawn at random. What each
// device received, how many updates you made and what LeNet has learned are compared with what a
// solution does.
//
// **How to run.** `--batch-size` is b, the images that each device gets in a step.
//
//     make exercise-04-1 ARGS=--check     the check alone: seconds
//     make exercise-04-1                  the check, then the experiment: a minute or two
//     make exercise-04-1 ARGS=--quick     the same with fewer images
//     make exercise-04-1 ARGS='--batch-size 256 --train-size 60000 --epochs 10'    the book's sizes
//
// **What to hand in.** This file, and your answer to the question above in three sentences: one on
// the number of updates, one on the accuracy, one on the learning rate, each with figures from your
// own run. Write down what you expect before you start the experiment.
#include "your_part.h"

// `train_epoch()` makes one pass over the data, pass number `epoch`, on the k devices of `r`, with
// minibatches of k*b images. It returns how many updates it made.
//
// Four functions of common/data/fashion_mnist.h hand out the minibatches:
// `data_iter_new(data, batch_size, true, seed)` makes an iterator that shuffles the images,
// `data_iter_start()` begins an epoch, `data_iter_next()` gets the next minibatch or says that
// there is none left, and `data_iter_free()` ends it all. The seed is the same in each epoch: the
// iterator makes another order of it for each number of an epoch. Chapter 4's `train_batch()`
// splits a minibatch over the devices and makes one update with it. It also leaves a loss of each
// device, in an array `Tensor *losses[MAX_DEVICES]`; these belong to the step, and go with it.
int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    // YOUR CODE HERE
    return 0;
}
