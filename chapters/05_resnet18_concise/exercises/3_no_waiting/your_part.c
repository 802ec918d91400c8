// # Exercise 3: no wait at the end of a step
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 3: "What
// happens if we drop npx.waitall()? How would you modify training such that you have an overlap of
// up to two steps for parallelism?"
//
// Difficulty: ★★★☆
//
// **Aim.** The host only enqueues: it puts work into the devices' queues and goes on. What makes it
// wait at the end of a step?
//
// - `item(loss)` does, because a loss has to be computed before it can be read.
// - `data_iter_next()` does, until no device reads the last minibatch from host memory any more.
// - `begin_step()` does not, although it gives away the arena, a device's memory for a step: what
//   will overwrite it stands in the same queue behind what still uses it.
//
// So the host may run ahead of the devices if it has a minibatch, and a place for the losses, for
// each step that is under way. Such a pair is a slot (loader.h), and slots are used in turn; on the
// devices nothing has to be doubled. How far ahead is worth it?
//
// **Your task.** Write `train_ahead()`, the training, and `predict()`, which says how long that
// takes.
//
// **How it is checked.** loader.c keeps a log: which steps were prepared, trained and waited for,
// and which were under way when another began. Model devices tell when the host began with each.
// Losses and parameters must be those of the solution, and so must what `predict()` says.
//
// **How to run.**
//
//     make exercise-05-3 ARGS=--check          the check alone: seconds
//     make exercise-05-3                       the check, then the experiment: some minutes
//     make exercise-05-3 ARGS='--devices 1'    on 1 device instead of 2
//
// **What to hand in.** This file, and your answer to the book's two questions; say also what the
// second step ahead is good for that one step is not.
#include "your_part.h"

#include <math.h>

// `train_ahead()` trains for `steps` steps, with the host up to `ahead` steps ahead of the devices:
// 0 means that it waits for step n - 1 before it begins with step n, 1 that it waits for step
// n - 2, and so on. A step is: `prepare()` its slot, chapter 5's `train_step()` with the slot's X
// and y, `keep_losses()`. And `wait_for(loader, slot_of(loader, n))` waits for step n and returns
// its loss, which belongs in `losses[n]`. Hints:
//
// - `prepare()` writes over the slot of an earlier step: that step must be done by then.
// - At the end all steps must be done, and all losses be there.
void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                 double losses[]) {
    // YOUR CODE HERE
}

// `predict()` returns the seconds that this takes. The host needs `host_seconds[n]` for step n and
// then hands it to the devices, which need `device_seconds` for each step and do one after the
// other. The host begins with step n when it has handed over step n - 1 and step n - 1 - ahead is
// done.
double predict(int steps, int ahead, const double host_seconds[], double device_seconds) {
    // YOUR CODE HERE
    return 0;
}
