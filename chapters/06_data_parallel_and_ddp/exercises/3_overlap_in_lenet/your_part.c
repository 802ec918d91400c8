// # Exercise 3: three waits in LeNet's overlap
//
// In chapter 6's "Exchange under backward", the compute queue does not wait and goes on with
// backward. The step below exchanges LeNet's gradients like this, one parameter at a time. It runs
// without an error message, but three mistakes are in what waits for what, or in which queue.
//
// Difficulty: ★★★☆
//
// **Aim.** You find wrong waits in a trace. What may begin when, and what does a step wait for:
// arithmetic, links, or the host's launches?
//
// **Your task.** Find the three mistakes and correct them. The comments say what the functions
// should do. The rest of the step is in overlap.c; read overlap.h first. Look at the trace again
// after each correction.
//
// **How it is checked.** Steps on 2 to 4 model devices are traced. Each parameter is exchanged
// once, on the communication queues, after its gradients and before the update, during backward.
// Steps on 1 to 7 devices that compute must have the parameters of `train_batch()`.
//
// **How to run.** All times are modelled. The program prints the trace of a step, and then compares
// steps on four kinds of machines, with 2 to 8 devices and 64 to 4096 images.
//
//     make exercise-06-3 ARGS=--check              builds and checks it: seconds
//     build/06_data_parallel_and_ddp_exercise_3    trace and experiment, right or wrong: seconds
//
// **What to hand in.** This file, and your answers. For each mistake, which line of the trace shows
// it, and by which numbers? (Some show only when others are corrected.) When does overlap not help,
// and why? What does the step wait for on each machine?
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "your_part.h"

// YOUR CODE HERE: in the lines that are wrong.

// Called once in each step for device i and parameter p, in the order of backward. What computes
// this gradient is now on the compute queue of device i. (It is enqueued, not done.) The last
// device's call starts the exchange. On each device the communication queue waits until the
// gradient is there, and the compute queue goes on with backward.
void gradient_is_final(Overlap *o, int i, int p) {
    Tensor *grads[MAX_COMPUTING];
    o->final[i][p] = device_record(o->devices[i]);
    if (++o->num_final[p] < o->k) return;
    for (int j = 0; j < o->k; j++) {
        queue_wait(comm_queue(o->devices[j]), o->final[i][p]);
        grads[j] = o->params[j][p]->grad;
    }
    communicate_begin();
    allreduce(grads, o->k);
    communicate_end();
    for (int j = 0; j < o->k; j++) {
        Event after = queue_record(comm_queue(o->devices[j]));
        device_wait(o->devices[j], after);
    }
}

// Called when all of backward is enqueued. Each device is updated when its exchanges are done.
void update_all(Overlap *o, float lr, int batch_size) {
    for (int i = 0; i < o->k; i++) {
        queue_wait(comm_queue(o->devices[i]), o->exchanged[i]);
        sgd(o->params[i], LENET_PARAMS, lr, batch_size);
    }
}
