// # Exercise 3: no wait at the end of a step
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 3: "What
// happens if we drop npx.waitall()? How would you modify training such that you have an overlap of
// up to two steps for parallelism?"
//
// Difficulty: ★★★☆
//
// How to run
//   make exercise-05-3                       the question, the answer, the evidence
//   make exercise-05-3 ARGS=--check          only check the solution: seconds
//   make exercise-05-3 ARGS='--devices 1'    on 1 device instead of 2
//
// The host only enqueues. What makes it wait at the end of a step?
//   - item(loss) does, because the loss has to be computed before it can be read;
//   - data_iter_next() does, until no device reads the last minibatch from host memory any more;
//   - begin_step() does not, although it gives the arena away: what will overwrite it stands in the
//     same queue behind what still uses it.
// So the host may run ahead if it has a minibatch, and a place for the losses, for each step that
// is under way: slots, used in turn (see loader.h). Nothing has to be doubled on the devices.
#include "your_part.h"

#include <math.h>

// Trains for `steps` steps, the host being up to `ahead` steps ahead of the devices: 0 means that
// it waits for step n - 1 before it begins with step n, 1 that it waits for step n - 2, and so on.
// A step is: prepare() its slot, train_step() of chapter 5 with the slot's X and y, keep_losses().
// wait_for(loader, slot_of(loader, n)) waits for step n and returns its loss, which belongs in
// losses[n]. Two things to think of:
//   - prepare() writes over the slot of an earlier step: that one must be done by then;
//   - at the end all steps must be done, and all losses be there.
void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                 double losses[]) {
    // SOLUTION
    Tensor *shard_losses[MAX_DEVICES];
    for (int n = 0; n < steps; n++) {
        int before = n - 1 - ahead;
        if (before >= 0) losses[before] = wait_for(loader, slot_of(loader, before));
        Slot *slot = prepare(loader, n);
        train_step(dp, slot->X, slot->y, lr, shard_losses);
        keep_losses(loader, slot, shard_losses);
    }
    int left = steps - 1 - ahead > 0 ? steps - 1 - ahead : 0; // the first not waited for yet
    for (int n = left; n < steps; n++) losses[n] = wait_for(loader, slot_of(loader, n));
    // END SOLUTION
}

// The seconds that this takes: the host needs host_seconds[n] for step n and then hands it to the
// devices, which need device_seconds for each step and do one after the other. The host begins with
// step n when it has handed over step n - 1 and step n - 1 - ahead is done.
double predict(int steps, int ahead, const double host_seconds[], double device_seconds) {
    // SOLUTION (starter: return 0;)
    double handed_over = 0, done[MOST_STEPS] = {0};
    for (int n = 0; n < steps; n++) {
        double begin = n > ahead ? fmax(handed_over, done[n - 1 - ahead]) : handed_over;
        handed_over = begin + host_seconds[n];
        done[n] = fmax(handed_over, n > 0 ? done[n - 1] : 0) + device_seconds;
    }
    return done[steps - 1];
    // END SOLUTION
}
