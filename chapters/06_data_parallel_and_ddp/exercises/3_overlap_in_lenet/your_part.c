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
// step is in overlap.c; read overlap.h first, and `start_bucket()` of chapter 6's ddp.c.
//
// **How it is checked.** A step on model devices is traced: each parameter must be exchanged once,
// on the communication queues, after its gradient is final on all devices, while backward goes on;
// and the update must come after the exchange. Then steps on 1, 2, 3, 4 and 7 devices that compute
// must have the bits and the bytes of chapter 4's `train_batch()`.
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
    // SOLUTION
    Tensor *grads[MAX_COMPUTING];
    o->final[i][p] = device_record(o->devices[i]);
    if (++o->num_final[p] < o->k) return;
    for (int j = 0; j < o->k; j++) {
        queue_wait(comm_queue(o->devices[j]), o->final[j][p]);
        grads[j] = o->params[j][p]->grad;
    }
    communicate_begin();
    allreduce(grads, o->k);
    communicate_end();
    // END SOLUTION
}

// `update_all()` is called when all of backward is enqueued: `sgd()` on each device, which needs
// the sums. So the compute queue has to wait for the device's communication queue:
// `device_wait(device, event)`, with an event of `queue_record()`.
void update_all(Overlap *o, float lr, int batch_size) {
    // SOLUTION
    for (int i = 0; i < o->k; i++) {
        device_wait(o->devices[i], queue_record(comm_queue(o->devices[i])));
        sgd(o->params[i], LENET_PARAMS, lr, batch_size);
    }
    // END SOLUTION
}
