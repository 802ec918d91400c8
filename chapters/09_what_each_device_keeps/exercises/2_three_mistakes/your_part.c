// # Exercise 2: three mistakes in an FSDP
//
// Chapter 9: "Now a device keeps 1/k of the parameters of each unit." The small FSDP below does
// this. It runs without an error message, but it contains three mistakes that people make in
// practice.
//
// Difficulty: ★★★☆
//
// **Aim.** You find mistakes by comparing numbers. Which numbers differ from those of undivided
// training, on how many devices, and from which step on?
//
// **Your task.** Find the three mistakes and correct them. The comments say what the functions
// should do. You do not have to rewrite any of them.
//
// **How it is checked.** A small network trains on one device, on 2 to 4 devices, and from a saved
// state. Losses, parameters and moments must be the same as in undivided training, and only the
// necessary bytes may move between devices.
//
// **How to run.** Look at the facts before you change anything, and after each change.
//
//     make exercise-09-2 ARGS=--check               builds and checks it: seconds
//     build/09_what_each_device_keeps_exercise_2    shows the facts, right or wrong: seconds
//
// **What to hand in.** This file, and your answers. For each mistake, which number showed it? With
// how many devices, and from which step on, is something wrong? Which of the three would you have
// noticed if you had seen only the losses of 4 devices?
#include "your_part.h"

// YOUR CODE HERE: in the functions that are wrong.

// s->own[p][i] is what device i keeps of parameter p: part i, or all of it if the parameter is too
// small to be divided (sharded.h).

// Assembles s->params from the parts in s->own. (s->params has separate memory here.)
void gather(Sharded *s) {
    for (int p = 0; p < s->n; p++)
        if (s->divided[p]) all_gather(s->params[p], s->own[p], s->k);
}

// Computes s->own_grads. For what a device keeps, these are the gradients summed over all devices.
void reduce_gradients(Sharded *s) {
    for (int p = 0; p < s->n; p++) {
        if (s->divided[p]) reduce_scatter(s->own_grads[p], s->grads[p], s->received[p], s->k);
    }
}

// Updates what each device keeps, and sets all gradients to zero.
void update(Sharded *s, float lr, int batch_size) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < s->k; i++) {
            momentum_step(s->own[p][i], s->own_grads[p][i], s->moments[p][i], lr,
                          1 / (float)batch_size);
            tensor_fill(s->grads[p][i], 0);
        }
}

// Makes a step with the minibatch X, y; compute_gradients() uses s->params. Returns the mean loss,
// from before the update.
float train_step(Sharded *s, const Tensor *X, const Tensor *y, float lr) {
    float loss = compute_gradients(s, X, y);
    reduce_gradients(s);
    update(s, lr, X->shape[0]);
    return loss;
}

// Continues from a saved training run, possibly on another number of devices.
void load(Sharded *s, const Saved *saved) {
    for (int p = 0; p < s->n; p++) {
        const float *params = saved->params[p], *moments = saved->moments[p];
        for (int i = 0; i < s->k; i++) {
            tensor_write(s->own[p][i], params);
            tensor_write(s->moments[p][i], moments);
            if (!s->divided[p]) continue;
            params += numel(s->own[p][i]);
        }
    }
    gather(s);
}
