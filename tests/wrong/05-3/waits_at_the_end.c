// wrong: waits for each step at its end, to read its loss, so the host is never ahead
// loses: 4
// says: before step n wait for step n - 1 - ahead only

#include "your_part.h"

#include <math.h>

void train_ahead(DataParallel *dp, Loader *loader, int steps, int ahead, float lr,
                 double losses[]) {
    Tensor *shard_losses[MAX_DEVICES];
    (void)ahead;
    for (int n = 0; n < steps; n++) {
        Slot *slot = prepare(loader, n);
        train_step(dp, slot->X, slot->y, lr, shard_losses);
        keep_losses(loader, slot, shard_losses);
        losses[n] = wait_for(loader, slot);
    }
}

double predict(int steps, int ahead, const double host_seconds[], double device_seconds) {
    double handed_over = 0, done[MOST_STEPS] = {0};
    for (int n = 0; n < steps; n++) {
        double begin = n > ahead ? fmax(handed_over, done[n - 1 - ahead]) : handed_over;
        handed_over = begin + host_seconds[n];
        done[n] = fmax(handed_over, n > 0 ? done[n - 1] : 0) + device_seconds;
    }
    return done[steps - 1];
}
