// # Exercise 4: a large minibatch, in parts
//
// Chapter 6, `ddp_no_sync()`: "between the two calls gradients are not exchanged, but add up; the
// next ddp_backward() after it exchanges the sum." Does that give the bits of the large minibatch?
//
// Difficulty: ★★☆☆
//
// **Aim.** A minibatch that does not fit into a device's memory is gone through in m parts, whose
// gradients add up (*gradient accumulation*). Activations are those of one part, and the gradients
// are exchanged once instead of m times. In exact arithmetic nothing changes. In floating point,
// when is it equal to the bit, and why? And for which networks is it not even nearly equal?
//
// **Your task.** Write `step_in_parts()`, one update from m parts.
//
// **How it is checked.** Two updates of LeNet on 1, 2 and 3 devices, from parts of equal and
// unequal sizes, must be those of the whole minibatch, but for rounding. Each update may send the
// bytes of one exchange; at its end no device may hold more than the activations of one part.
//
// **How to run.**
//
//     make exercise-06-4 ARGS=--check     the check alone: seconds
//     make exercise-06-4                  the check, then the experiment: less than a minute
//
// **What to hand in.** This file, and your answer: for which sizes, parts and ranks are the bits
// equal (a CPU device adds up the images of a minibatch as a tree: see chapter 4, "One device,
// then two"), and what batch norm makes of it.
#include "common/tensor/functional.h"
#include "your_part.h"

// `step_in_parts()` makes one update with the minibatch X (n,...), y (n), which are on the host; it
// goes through the plan->m parts one after the other.
//
// `load_part(ddp, plan, j, X, y, X_shards, y_shards)` brings part j to the k = ddp->k ranks. The
// rest of a part is chapter 6's: `ddp_forward()`, the summed losses `sum(cross_entropy(..))` of
// each rank, `ddp_backward()`, which adds to the gradients that are there. `ddp_no_sync()` says
// whether they are exchanged, and `ddp_update()` divides by a number of rows: of how many?
void step_in_parts(Ddp *ddp, const Plan *plan, const Tensor *X, const Tensor *y, float lr) {
    // YOUR CODE HERE
}
