// # Exercise 3: an allreduce with which all devices work
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 3: "Implement a more efficient
// allreduce function that aggregates different parameters on different GPUs. Why is it more
// efficient?"
//
// Difficulty: ★★★☆
//
// **Aim.** The book's `allreduce()` is a star: device 0, its hub, receives all gradients, adds them
// up and sends the sums out, while the other devices and the links between them wait. Here
// different parameters are summed on different devices. That alone does not balance the work, since
// one matrix of LeNet has most of its parameters; so each parameter is also cut into k parts, one
// for each device. Is that faster, and on which links?
//
// **Your task.** Write `allreduce_at()`, a star around any device, and `allreduce_parts()`, which
// calls it once for each part.
//
// **How it is checked.** Vectors of whole numbers are summed over 1 to 5 devices, where no rounding
// hides a mistake: each element must be right on each device. Then the bytes that each device
// received and sent must be those of the formula; if they are not, the check tells how many
// elements each device has summed.
//
// **How to run.** All times in this experiment are modelled, so it takes no time itself.
//
//     make exercise-04-3 ARGS=--check          the check alone: a second
//     make exercise-04-3                       the check, then the experiment: a few seconds
//     make exercise-04-3 ARGS='--devices 8'    on 8 devices instead of 4
//
// **What to hand in.** This file, and your answer to the book's "Why?": for which vectors and links
// it is more efficient to sum in parts, for which it is not, and what limits each. Chapter 2's
// allreduce_sharded.c goes on from here; read it afterwards.
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// `allreduce_at()` does what the book's `allreduce()` does: `data[i]` is on device i, and
// afterwards each of them holds the sum of all. But the sum is computed on device `hub`, not on
// device 0. Any order of additions will do, if only all devices end with the same bits.
//
// `tensor_copy(to, from)` copies between devices. What arrives at the hub needs a place there:
// `arena_tensor(device, data[hub]->ndim, data[hub]->shape, false)` is one that lasts for the step.
// `launch(device, add, .y = y, .x = x, .n = n)` adds n numbers at x to those at y.
void allreduce_at(Tensor *const data[], int k, int hub) {
    // YOUR CODE HERE
}

// `allreduce_parts()` computes the same sum, but device j is the hub of part j, which has about n/k
// of the n elements: `equal_range(n, k, j)` of common/base/range.h says which. A part can be made a
// tensor of its own that points into `data[i]`: fill in a `Tensor`'s fields `.data`, `.ndim` (1),
// `.shape` and `.device`.
void allreduce_parts(Tensor *const data[], int k) {
    // YOUR CODE HERE
}
