// # Exercise 2: how large a step may be when its gradient is old
//
// Chapter 7, "Waiting for each other, or not": "Now a gradient is applied to other parameters than
// it was computed from; how many other pushes were applied in between is its *staleness*."
//
// Difficulty: ★★★☆
//
// **Aim.** An old gradient is not a wrong one, if the parameters have not gone far since. How far
// they go is up to the learning rate: so the staler the pushes, the smaller it must be. How much
// smaller? Zhang et al. ("Staleness-aware async-SGD for distributed deep learning", IJCAI 2016)
// divide the learning rate of each push by its staleness: then one that was tried out without
// staleness can be kept. Is that the right rule, and where does it come from?
//
// **Your task.** Write `lr_factor()`, the factor of a push's learning rate, and `add_stale_push()`,
// which applies it.
//
// **How it is checked.** The factor must be that of the paper for every staleness, with 1 for
// pushes that are not stale. Sums of pushes with different staleness must be right. Then LeNet is
// trained on two schedules: a synchronous one must give the bits that it gives without a factor,
// and an asynchronous one those of chapter 7's `--staleness-lr`. If something differs, the check
// says what came, and which of the usual mistakes come to that.
//
// **How to run.**
//
//     make exercise-07-2 ARGS=--check        the check alone: seconds
//     make exercise-07-2                     the check, then the experiment: half a minute
//     make exercise-07-2 ARGS='--seed 2'     other images, other weights
//
// **What to hand in.** This file, and your answer: how does the largest learning rate go down from
// staleness 0 to 15, and what does your factor make of it? Where does it do too little, would
// 1/(t+1) do better, and what would 1/t^2 do? (The experiment has a formula for a parabola: where
// does it come from?)
#include "your_part.h"

// `lr_factor()` returns what the learning rate of a push is multiplied by: 1/t for a staleness of
// t, and 1 for one of 0, which is not stale.
float lr_factor(long staleness) {
    // SOLUTION (starter: return 0;)
    return staleness > 1 ? 1 / (float)staleness : 1;
    // END SOLUTION
}

// `add_stale_push()` adds a push, the gradients of one worker, times its factor, to `sum`, the
// gradients of those before it. The server then makes a step with the sum, and one learning rate;
// so a factor for the learning rate of one push is a factor for its gradients.
//
// The two are vectors on one device. Two kernels are there for that, and the push need not be kept:
//
//     launch(device, scale, .x = x, .factor = f, .n = n);    x[i] *= f
//     launch(device, add, .y = y, .x = x, .n = n);           y[i] += x[i]
void add_stale_push(Tensor *sum, Tensor *push, long staleness) {
    // SOLUTION
    size_t n = numel(push);
    launch(push->device, scale, .x = push->data, .factor = lr_factor(staleness), .n = n);
    launch(sum->device, add, .y = sum->data, .x = push->data, .n = n);
    // END SOLUTION
}
