// # Exercise 4: the towers' update, on a GPU instead of the CPU
//
// Chapter 7, "Towers": "Each step sends all of them to all towers, brings all gradients back, and
// there combines and applies them." There is the CPU. TensorFlow's benchmarks can also keep the
// variables on the first GPU: `--variable_update=parameter_server --local_parameter_device=gpu`.
// What moves then, over which links, and does it pay?
//
// Difficulty: ★★☆☆
//
// **Aim.** With the variables on device 0, nothing passes through the host but images. Device 0
// needs no copy of what it has, so fewer bytes move. But all of them pass through device 0's link,
// where the host has a link to each device.
//
// **Your task.** Write `send_variables_from_gpu()` and `update_on_gpu()`, the two halves of a step
// that move something. The rest of the step is in gpu_towers.c; read gpu_towers.h first, and
// `towers_step()` of chapter 7's towers.c, which does the same on the CPU.
//
// **How it is checked.** For 1, 2, 3, 4 and 7 towers each half must move what the formulas say,
// link by link: P bytes of variables from device 0 to each other tower, P of gradients back,
// nothing to or from the host. The sums must have the bits of `combine_gradients()`, and LeNet must
// be trained as by chapter 7's towers. If not, the check says whose gradients are in a sum, and how
// often. On model devices a trace shows what is copied too early, or needlessly. "GPU" is any
// device here: without a GPU they are CPU devices, with memory of their own.
//
// **How to run.** All times are modelled, so the experiment takes no time itself.
//
//     make exercise-07-4 ARGS=--check                 the check alone: seconds
//     make exercise-07-4                              the check, then the experiment: seconds
//     make exercise-07-4 ARGS='--machine dgx-v100'    on a machine of your choice, too
//
// **What to hand in.** This file, and your answer: on which machine does the update belong on a
// GPU, on which on the CPU, and how does that change from 1 to 8 towers? Which link is the reason?
#include "your_part.h"

// `send_variables_from_gpu()` comes first in a step: the t->n variables, `t->vars[0][v]`, go to the
// other towers, into `t->vars[i][v]`. `tensor_copy(dst, src)` copies between any two devices; it
// comes after what both have been given to do before, and before what they are given later, so
// nobody has to wait for it.
void send_variables_from_gpu(GpuTowers *t) {
    // SOLUTION
    for (int i = 1; i < t->k; i++)
        for (int v = 0; v < t->n; v++) tensor_copy(t->vars[i][v], t->vars[0][v]);
    // END SOLUTION
}

// `update_on_gpu()` comes when the gradients, `t->vars[i][v]->grad`, are computed, each on its own
// device. It combines them on device 0, in the order of the towers, 0 first, and applies them
// there.
//
// - `t->received[i][v]`, on device 0, is a place for what comes from tower i.
// - `combine_gradients()` of towers.h does on a device of your choice what it did on the CPU;
//   `t->sums[v]`, on device 0, is a place for a sum.
// - `launch(device, sgd, .param = .., .grad = .., .lr = lr, .batch_size = .., .n = ..)` applies it,
//   divided by batch_size: k if `t->combine` is TOWERS_MEAN, 1 if it is TOWERS_SUM.
void update_on_gpu(GpuTowers *t, float lr) {
    // SOLUTION
    GradAndVar lists[MAX_COMPUTING][MOST_VARS], *tower_grads[MAX_COMPUTING], final[MOST_VARS];
    for (int i = 0; i < t->k; i++) {
        tower_grads[i] = lists[i];
        for (int v = 0; v < t->n; v++) {
            if (i > 0) tensor_copy(t->received[i][v], t->vars[i][v]->grad);
            lists[i][v].grad = i > 0 ? t->received[i][v] : t->vars[0][v]->grad;
            lists[i][v].var = t->vars[0][v];
        }
    }
    for (int v = 0; v < t->n; v++) final[v].grad = t->sums[v];
    combine_gradients(t->devices[0], tower_grads, t->k, t->n, final);
    for (int v = 0; v < t->n; v++)
        launch(t->devices[0], sgd, .param = final[v].var->data, .grad = t->sums[v]->data, .lr = lr,
               .batch_size = t->combine == TOWERS_MEAN ? t->k : 1, .n = numel(t->sums[v]));
    // END SOLUTION
}
