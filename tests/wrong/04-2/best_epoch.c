// wrong: returns the best accuracy of all epochs, not that after the last one
// loses: 5
// says: the best of all epochs is another one

#include "your_part.h"

#include <math.h>

double accuracy_after(Replicas *r, const Dataset *data, int epochs, int b, float lr, uint64_t seed,
                      DataIter *test_iter) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    double best = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (data_iter_next(iter, &X, &y))
            train_batch(X, y, r->params, r->devices, r->k, lr, losses);
        best = fmax(best, evaluate_accuracy_gpu(lenet, r->params[0], test_iter, r->devices[0]));
    }
    data_iter_free(iter);
    return best;
}

void mean_and_spread(const double values[], int n, double *mean, double *spread) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *spread = n > 1 ? sqrt(squares / (n - 1)) : 0;
}
