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
// **How it is checked.** Whole numbers are counted, so the accuracy must be exactly that of one
// device: on 1 to 5 and 7 devices, with a last minibatch of a single image, and with more devices
// than images. Each device must get its share of the images and hold the activations of no
// more than one minibatch, and training must be possible afterwards.
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
    // SOLUTION (starter: return 0;)
    Tensor *correct[MAX_DEVICES], *X, *y, *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
    double total = 0;
    long observations = 0;
    for (int i = 0; i < k; i++) {
        correct[i] = tensor_new(devices[i], 1);
        tensor_fill(correct[i], 0);
    }
    set_grad_enabled(false);
    data_iter_start(data_iter, 0);
    while (data_iter_next(data_iter, &X, &y)) {
        for (int i = 0; i < k; i++) begin_step(devices[i]);
        split_batch(X, y, devices, k, X_shards, y_shards);
        for (int i = 0; i < k; i++)
            count_correct(correct[i], net(X_shards[i], device_params[i]), y_shards[i]);
        observations += X->shape[0];
    }
    set_grad_enabled(true);
    for (int i = 0; i < k; i++) {
        total += (double)item(correct[i]);
        tensor_free(correct[i]);
    }
    return total / (double)observations;
    // END SOLUTION
}
