// wrong: divides lr by the size of the minibatch, which train_batch() does as well
// loses: 1 3 4 5
// says: lr / \(k\*b\) ends with these parameters

#include "your_part.h"

int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    int batch_size = r->k * b, updates = 0;
    DataIter *iter = data_iter_new(data, batch_size, true, seed);
    data_iter_start(iter, epoch);
    while (data_iter_next(iter, &X, &y)) {
        train_batch(X, y, r->params, r->devices, r->k, lr / (float)batch_size, losses);
        updates++;
    }
    data_iter_free(iter);
    return updates;
}
