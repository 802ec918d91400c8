// # Exercise 3: an allreduce with which all devices work
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 3: "Implement a more efficient
// allreduce function that aggregates different parameters on different GPUs. Why is it more
// efficient?"
//
// Difficulty: ★★★☆
//
// **Aim.** The book's `allreduce()` is a star. Device 0, its hub, receives all gradients, adds them
// up and sends the sums out, while the other devices and the links between them wait. Here,
// different parameters are summed on different devices. This alone does not balance the work,
// because one matrix has most of LeNet's parameters. So each parameter is also cut into k parts,
// one for each device. Is that faster, and on which links?
//
// **Your task.** Write `allreduce_at()`, a star around any device, and `allreduce_parts()`, which
// calls it once for each part.
//
// **How it is checked.** Vectors of whole numbers are summed over 1 to 5 devices, so that no
// rounding hides a mistake. Each element must be right on each device. Then the bytes that each
// device received and sent must match the formula. If they do not, the check says how many elements
// each device has summed.
//
// **How to run.** All times in this experiment are modelled, so it runs quickly.
//
//     make exercise-04-3 ARGS=--check          the check alone: a second
//     make exercise-04-3                       the check, then the experiment: a few seconds
//     make exercise-04-3 ARGS='--devices 8'    on 8 devices instead of 4
//
// **What to hand in.** This file, and your answer to the book's "Why?". For which vectors and links
// is it more efficient to sum in parts, for which is it not, and what limits each? Chapter 2's
// allreduce_sharded.c continues from here. Read it afterwards.
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// `allreduce_at()` does what the book's `allreduce()` does: `data[i]` is on device i, and
// afterwards each of them holds the sum of all. But the sum is computed on device `hub`, not on
// device 0. Any order of additions is fine as long as all devices end with the same bits.
//
// `tensor_copy(to, from)` copies between devices. What arrives at the hub needs memory there:
// `arena_tensor(device, data[hub]->ndim, data[hub]->shape, false)` is a tensor that lasts for the
// step. `launch(device, add, .y = y, .x = x, .n = n)` adds n numbers at x to those at y.
void allreduce_at(Tensor *const data[], int k, int hub) {
    // YOUR CODE HERE
}

// `allreduce_parts()` computes the same sum, but device j is the hub of part j, which has about n/k
// of the n elements. `equal_range(n, k, j)` of common/base/range.h says which ones. A part can be a
// separate tensor that points into `data[i]`. Fill in a `Tensor`'s fields `.data`, `.ndim` (1),
// `.shape` and `.device`.
void allreduce_parts(Tensor *const data[], int k) {
    // YOUR CODE HERE
}
