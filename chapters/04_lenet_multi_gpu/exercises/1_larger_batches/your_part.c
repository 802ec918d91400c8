// # Exercise 1: minibatches of k*b images on k devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 1: "When training on k GPUs, change
// the minibatch size from b to k*b, i.e., scale it up by the number of GPUs."
//
// Difficulty: ★★☆☆
//
// **Aim.** Chapter 4 divides a minibatch, so with more devices, each one works on fewer images.
// Here the minibatch grows with the number of devices, so each device has b images in every step
// and is as busy as one alone. But larger minibatches also mean fewer updates in an epoch. How does
// this change the accuracy, and does a larger learning rate make up for it?
//
// **Your task.** Write `train_epoch()` below. Ten lines are enough.
//
// **How it is checked.** 1 to 4 devices train LeNet on random images. What each device received,
// the number of updates and what LeNet has learned are compared with those of a solution.
//
// **How to run.** `--batch-size` is b, the number of images that each device gets in a step.
//
//     make exercise-04-1 ARGS=--check     the check alone: seconds
//     make exercise-04-1                  the check, then the experiment: a minute or two
//     make exercise-04-1 ARGS=--quick     the same with fewer images
//     make exercise-04-1 ARGS='--batch-size 256 --train-size 60000 --epochs 10'    the book's sizes
//
// **What to hand in.** This file, and your answer to the question above in three sentences: one on
// the number of updates, one on the accuracy and one on the learning rate, each with figures from
// your own run. Write down what you expect before you start the experiment.
#include "your_part.h"

// `train_epoch()` makes one pass over the data, pass number `epoch`, on the k devices of `r`, with
// minibatches of k*b images. It returns the number of updates.
//
// Four functions of common/data/fashion_mnist.h hand out the minibatches:
// `data_iter_new(data, batch_size, true, seed)` makes an iterator that shuffles the images,
// `data_iter_start()` begins an epoch, `data_iter_next()` gets the next minibatch or says that
// there is none left, and `data_iter_free()` frees the iterator. The seed is the same in each
// epoch, and the iterator makes a different order from it for each epoch number. Chapter 4's
// `train_batch()` splits a minibatch over the devices and makes one update with it. It also stores
// each device's loss in an array `Tensor *losses[MAX_DEVICES]`. These tensors last only for the
// step.
int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    // YOUR CODE HERE
    return 0;
}
