// # Exercise 3: LeNet, with the exchange under backward
//
// Chapter 6, "Backward, and the exchange under it": "The compute queue waits for nothing and goes
// on with backward." Chapter 4's `train_batch()` exchanges when backward is over. What does it save
// to overlap the two, and when nothing?
//
// Difficulty: ★★★☆
//
// **Aim.** Backward computes the gradients of the last layer first, and nothing that follows needs
// them: their exchange can go on beside it, in a queue of its own. Whether that shortens the step
// depends on what a step waits for: arithmetic, links, or the host's launches.
//
// **Your task.** Write `gradient_is_final()`, which starts the exchange of a parameter when all
// devices have its gradient, and `update_all()`, which must not come too early. The rest of the
// step is in overlap.c; read overlap.h first, and `exchange_begin()` (common/device/queue.c), with
// which chapter 6 starts a bucket.
//
// **How it is checked.** Steps on 2 to 4 model devices are traced: one exchange of each parameter,
// on the communication queues, after its gradients and before the update, while backward goes on.
// Steps on 1 to 7 devices that compute must have the parameters and bytes of `train_batch()`.
//
// **How to run.** All times are modelled: four kinds of machines, 2 to 8 devices, minibatches of 64
// to 4096 images, star and ring.
//
//     make exercise-06-3 ARGS=--check        the check alone: seconds
//     make exercise-06-3                     the check, then the experiment: seconds
//     make exercise-06-3 ARGS='--machine dgx-v100'    on a machine of your choice, too
//
// **What to hand in.** This file, and your answer: when does overlapping not help, and why? Name
// for each machine what the step waits for.
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

// `gradient_is_final()` is called, in each step, once for each device i and parameter p, in the
// order in which backward computes the gradients: what computes that of `o->params[i][p]` is now on
// the compute queue of `o->devices[i]`. (Enqueued, not done.) When the gradient is final on all k
// devices, it starts the exchange: chapter 2's `allreduce()` of the k gradients, on the
// communication queues.
//
// `device_record(device)` is a point in a device's queue. `queue_wait(comm_queue(device), event)`
// lets the communication queue wait for such a point. Between `communicate_begin()` and
// `communicate_end()`, what `allreduce()` enqueues goes into the communication queues. `o->final`
// and `o->num_final` are there to keep what you need to know until the last device's call.
void gradient_is_final(Overlap *o, int i, int p) {
    // YOUR CODE HERE
}

// `update_all()` is called when all of backward is enqueued: `sgd()` on each device, which needs
// the sums. So the compute queue has to wait for the device's communication queue:
// `device_wait(device, event)`, with an event of `queue_record()`.
void update_all(Overlap *o, float lr, int batch_size) {
    // YOUR CODE HERE
}
