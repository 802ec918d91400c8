// # Exercise 4: test accuracy, computed on all devices
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 4: "Implement multi-GPU test accuracy
// computation." In the book's train() one device evaluates the network, "although inefficient,
// since the other GPUs are idle".
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-4                   the question, the answer, the evidence
//   make exercise-04-4 ARGS=--check      only check the solution: seconds
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// The part (0..1) of the observations of data_iter that the network classifies correctly, computed
// on k devices: each has its copy of the parameters and gets its shard of each minibatch. Read
// evaluate_accuracy_gpu() in common/data/evaluate.c first. Two things to think of:
//   - a number that is read with item() after each minibatch makes the devices wait for each other;
//     let each device count for itself, and add the counts up at the end;
//   - add up counts, not accuracies: shards may be unequal, and the last minibatch is shorter.
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
