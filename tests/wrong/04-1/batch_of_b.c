// wrong: minibatches of b images, as in chapter 4, so that each device has b/k of them
// loses: 3 5
// says: each needs k\*b

#include "your_part.h"

int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, b, true, seed);
    int updates = 0;
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_batch(X, y, r->params, r->devices, r->k, lr, losses);
        updates++;
    }
    data_iter_free(iter);
    return updates;
}
