// wrong: counts the minibatches by a division that rounds down, so the last images are left out
// loses: 5
// says: the last, shorter minibatch counts too

#include "your_part.h"

int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    int batch_size = r->k * b, updates = data->count / batch_size;
    DataIter *iter = data_iter_new(data, batch_size, true, seed);
    data_iter_start(iter, epoch);
    for (int n = 0; n < updates; n++) {
        data_iter_next(iter, &X, &y);
        train_batch(X, y, r->params, r->devices, r->k, lr, losses);
    }
    data_iter_free(iter);
    return updates;
}
