// # Exercise 4: a large minibatch of sentences, in parts
//
// Chapter 6, `ddp_no_sync()`: "Between ddp_no_sync(ddp, true) and ddp_no_sync(ddp, false),
// gradients are not exchanged but add up." What if the parts are not equally long?
//
// Difficulty: ★★☆☆
//
// **Aim.** A minibatch that does not fit into a device's memory is processed in m parts, and their
// gradients add up (*gradient accumulation*). Only one part's activations are kept, and gradients
// are exchanged once instead of m times. A language model has a loss for each token, and sentences
// have different lengths. So each part on each rank has its own number of tokens. For years, the
// update that widely used training libraries computed here was not that of the whole minibatch.
//
// **Your task.** Write `step_in_parts()`, which makes one update from m parts.
//
// **How it is checked.** Two updates on 1, 2 and 3 devices, from parts of equal and unequal length,
// must be those of the mean loss over all tokens, apart from rounding. The mean loss must also be
// right. Each update may send the bytes of one exchange.
//
// **How to run.**
//
//     make exercise-06-4 ARGS=--check     the check alone: seconds
//     make exercise-06-4                  the check, then the experiment: seconds
//
// **What to hand in.** This file, and your answer. What does a mean of the parts' means train
// instead, and when is it the same? Why can no rank know the divisor by itself?
#include "common/tensor/functional.h"
#include "your_part.h"

// `step_in_parts()` makes one update with the mean loss over all tokens of a minibatch, and returns
// that mean, as it was before the update. It goes through the plan->m parts one after the other.
//
// `load_part(ddp, plan, j, X, y)` loads part j onto the k = ddp->k ranks. Rank i has
// `plan->tokens[i][j].count` tokens in it. `loss_over(y_hat[i], y[i], divisor)` is the sum of a
// rank's losses, divided by a number, and `item()` reads it. The rest is from chapter 6:
// `ddp_forward()`; `ddp_backward()`, which adds to the existing gradients; `ddp_no_sync()`, which
// turns their sum over the ranks off (true) or on (false); and `ddp_update()`, which also divides
// by a number.
double step_in_parts(Ddp *ddp, const Plan *plan, float lr) {
    // YOUR CODE HERE
    return 0;
}
