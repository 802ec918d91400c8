// # Exercise 4: test accuracy, computed on all devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 4: "Implement multi-GPU test accuracy
// computation." In the book's `train()` one device evaluates the network: "although inefficient,
// since the other GPUs are idle".
//
// Difficulty: ★★☆☆
//
// **Aim.** Let all devices evaluate the network, each a shard of each minibatch. How much faster is
// that, and is it still the same number?
//
// **Your task.** Write `evaluate_accuracy_on_all()`. Read `evaluate_accuracy_gpu()` in
// common/data/evaluate.c first: yours does the same on k devices.
//
// **How it is checked.** 1 to 7 devices evaluate a small network on drawn images, also with a last
// minibatch of a single image and with fewer images than devices. The accuracy must be exactly
// right. The check also looks at which images each device received, what its memory held
// meanwhile, how often the host read from it, and whether training can go on afterwards.
//
// **How to run.**
//
//     make exercise-04-4 ARGS=--check     the check alone: seconds
//     make exercise-04-4                  the check, then the experiment: half a minute
//
// **What to hand in.** This file, and two sentences: how many times as fast 4 devices were as one,
// and why not 4 times (or why, if they were).
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// `evaluate_accuracy_on_all()` returns the part (0 to 1) of the images of `data_iter` that the
// network classifies correctly, computed on k devices. Device i has a copy of the parameters,
// `device_params[i]`, and gets its shard of each minibatch from chapter 3's `split_batch()`. Hints:
//
// - A number that is read with `item()` after each minibatch makes the host wait for that device,
//   and so the devices for each other. Let each device count for itself (`count_correct()`), and
//   add the counts up at the end.
// - Add up counts, not accuracies: shards may be unequal, and the last minibatch may be shorter.
// - `begin_step()` makes room on a device for the activations of the next minibatch.
double evaluate_accuracy_on_all(Net *net, Tensor *device_params[][LENET_PARAMS],
                                DataIter *data_iter, Device *const devices[], int k) {
    // YOUR CODE HERE
    return 0;
}
