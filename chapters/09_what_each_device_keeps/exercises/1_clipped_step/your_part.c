// # Exercise 1: a step of ZeRO-1 with a limit for the gradient
//
// Chapter 9: "Adam treats each parameter by itself. So device i needs only part i of the moments."
// What if an optimizer does not treat each parameter by itself?
//
// Difficulty: ★★★☆
//
// **Aim.** If a gradient is too long, it is *clipped*. All of it is multiplied by the same factor
// so that its norm becomes `max_norm` (PyTorch's `clip_grad_norm_`). For this, the devices need a
// number that none of them can compute alone. What must they exchange, and when?
//
// **Your task.** Write `clipped_step()`, a step of ZeRO-1 with a clipped gradient. The optimizer is
// SGD with momentum instead of Adam, and each parameter of the network is split separately.
//
// **How it is checked.** The functions in sharded.h place small networks on 1 to 4 devices. The
// gradients are given, and your function runs twice. Then all devices must have the parameters that
// one device would have, clipped or not, and only the necessary bytes may have moved between
// devices.
//
// **How to run.**
//
//     make exercise-09-1 ARGS=--check          the check alone: seconds
//     make exercise-09-1                       the check, then the experiment: seconds
//
// **What to hand in.** This file, and your answers. If each device clipped its part of the gradient
// by the norm of that part, how would the step differ, in length and in direction, and how would
// training change? (The experiment does this on 1, 4 and 8 devices.) What does the exchange for the
// norm cost, in bytes and in time?
#include "your_part.h"

#include <math.h>

// `clipped_step()` makes one step on k = s->k devices. `s->grads[p][i]` is the gradient of
// parameter p, summed over the rows of device i. Let g be the mean gradient over all batch_size
// rows of all devices. Then:
//
// - If the norm of g (the root of the sum of all its squares, over all parameters) is larger than
//   max_norm, then g is multiplied by max_norm / norm.
// - `momentum_step()` updates a parameter with a factor for its gradient. Device i calls it only
//   for its own parts, `s->own[p][i]`, with `s->own_grads[p][i]` and `s->moments[p][i]`.
// - At the end all devices have all new parameters in `s->params[p][i]`, and zeros in
//   `s->grads[p][i]`. `tensor_fill()` writes zeros.
//
// Call chapter 2's `reduce_scatter()` and `all_gather()` once for each parameter. own and own_grads
// are slices of params and grads here, and `s->received[p]` is memory for what arrives.
// `add_squares()` adds to a number on a device, such as `s->squares[i]`. For the norm, one
// `allreduce()` of one number per device is enough. `item()` reads this number.
void clipped_step(Sharded *s, float lr, float max_norm, int batch_size) {
    // YOUR CODE HERE
}
