// # Exercise 3: no wait at the end of a step
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 3: "What
// happens if we drop npx.waitall()? How would you modify training such that you have an overlap of
// up to two steps for parallelism?"
//
// Difficulty: ★★★☆
//
// **Aim.** The host only puts work into the devices' queues and goes on. What makes it wait at the
// end of a step?
//
// - `item(loss)` does, because a loss has to be computed before it can be read.
// - `data_iter_next()` does, until no device is still reading the last minibatch from host memory.
// - `begin_step()` does not, although it reuses the arena, a device's memory for a step. The work
//   that overwrites the arena is in the same queue, behind the work that still uses it.
//
// So the host may run ahead of the devices if each step in progress has its own minibatch and a
// place for its losses. Such a pair is a slot (loader.h). Slots are used in turn, and nothing has
// to be doubled on the devices. How far ahead is worth it?
//
// **Your task.** Write `train_ahead()`, which trains, and `predict()`, which says how long this
// takes.
//
// **How it is checked.** loader.c logs which steps were prepared, trained and waited for, and which
// were in progress when another began. Model devices show when the host began each step. Losses,
// parameters and the result of `predict()` must be those of the solution.
//
// **How to run.**
//
//     make exercise-05-3 ARGS=--check          the check alone: seconds
//     make exercise-05-3                       the check, then the experiment: some minutes
//     make exercise-05-3 ARGS='--devices 1'    on 1 device instead of 2
//
// **What to hand in.** This file, and your answer to the book's two questions. Also say what the
// second step ahead achieves that one step does not.
#include "your_part.h"

#include <math.h>

// `train_ahead()` trains for `steps` steps, with the host up to `ahead` steps ahead of the devices:
// 0 means that it waits for step n - 1 before it begins step n, 1 that it waits for step n - 2, and
// so on. A step calls `prepare()` for its slot, chapter 5's `train_step()` with the slot's X and y,
// and `keep_losses()`. `wait_for(loader, slot_of(loader, n))` waits for step n and returns its
// loss, which belongs in `losses[n]`. Hints:
//
// - `prepare()` overwrites the slot of an earlier step, and that step must be done by then.
// - At the end, all steps must be done, and all losses must be there.
void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                 double losses[]) {
    // YOUR CODE HERE
}

// `predict()` returns the seconds that this takes. The host needs `host_seconds[n]` for step n and
// then hands it to the devices, which need `device_seconds` for each step and do one step after the
// other. The host begins step n when it has handed over step n - 1 and step n - 1 - ahead is done.
double predict(int steps, int ahead, const double host_seconds[], double device_seconds) {
    // YOUR CODE HERE
    return 0;
}
