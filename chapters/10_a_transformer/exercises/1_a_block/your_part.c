// # Exercise 1: one transformer block on t devices
//
// Chapter 10: "In the backward pass, they change roles." There, a tape calls what `enter()` and
// `leave()` need in the backward pass. Here, there is no tape. You write both passes yourself, for
// one sequence of tokens, and for numbers of heads that t need not divide.
//
// Difficulty: ★★★☆
//
// **Aim.** You decide which part of each matrix a device needs, what devices must exchange in each
// pass, and what this costs.
//
// **Your task.** Write the six functions below, first without sequence parallelism (8 points), then
// with it (2 points). block.h explains the tensors of a `Half`, attention or MLP, and has functions
// that compute on one device. `block_forward()` and `block_backward()` in block.c call yours.
//
// **How it is checked.** Blocks with 5 to 8 heads run forward and backward on 1 to 4 devices. All
// results and gradients must be those of one device, with as few bytes sent as possible.
//
// **How to run.**
//
//     make exercise-10-1 ARGS=--check          the check alone: seconds
//     make exercise-10-1                       the check, then the experiment: seconds
//     make exercise-10-1 ARGS='--machine rtx4090-pcie'           on one more machine
//
// **What to hand in.** This file, and your answers. On each machine, from which t on does a block
// take longer than on t / 2 devices? (16 devices of dgx-a100 are two hosts.) On cluster-10gbe, why
// does this hardly depend on the number of tokens, but on the width? What does sequence parallelism
// save, what does it cost, and when would you use it?
#include "your_part.h"

// Which rows and columns of a matrix are on device i of t: part i of the heads, of the 4 d hidden
// numbers, or of the tokens, as `equal_range()` cuts them. A head stays whole. Each half then needs
// a single sum over the devices in each pass. TOKENS is asked for only with sequence parallelism.
Shard shard(Weight w, Sizes s, int i, int t) {
    // YOUR CODE HERE
    return (Shard){.rows = {.first = 0, .count = 0}, .columns = {.first = 0, .count = 0}};
}

// What comes before and after the split layers of each half. To exchange, call chapter 2's
// `allreduce(data, t)` and `reduce_scatter(sums, data, h->received, t)`, and `gather()`. Without
// sequence parallelism, own tokens are all tokens.

// X is there. Makes N on each device, and N_all, which the split layers read.
void enter_forward(Half *h) {
    // YOUR CODE HERE
}

// Z_all is there: on each device what its part of the weights gives. Makes Y. With sequence
// parallelism, a device keeps only its own tokens from here to the backward pass: no N_all.
void leave_forward(Half *h) {
    // YOUR CODE HERE
}

// dY is there. The split layers compute again from N_all, and go back with dY_all. So both must be
// there at the end.
void leave_backward(Half *h) {
    // YOUR CODE HERE
}

// dN_all is there: on each device what its part of the weights says about N. `replicated` is
// there, too, but only the part for the half's bias is filled, from own tokens. Makes dX and
// `replicated`.
void enter_backward(Half *h) {
    // YOUR CODE HERE
}

// The bytes that each device sends to others in one forward and one backward pass of both halves.
// An allreduce of n numbers sends 2 (t-1)/t n of them from each device. t divides tokens and d.
long bytes_of_block(int tokens, int d, int t, bool sequence) {
    // YOUR CODE HERE
    return 0;
}
