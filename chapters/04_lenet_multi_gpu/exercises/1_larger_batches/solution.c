// solution.c: minibatches of k*b images, each of them one update on all k devices.
#include "your_part.h"

int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    int updates = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_batch(X, y, r->params, r->devices, r->k, lr, losses);
        updates++;
    }
    data_iter_free(iter);
    return updates;
}
