// # Exercise 2: the learning rate, and how it scales with k
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 2: "Compare accuracy for different
// learning rates. How does it scale with the number of GPUs?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-2                          the question, the answer, the evidence
//   make exercise-04-2 ARGS=--check             only check the solution: seconds
//   make exercise-04-2 ARGS='--epochs 2 --batch-size 8'    longer training, larger minibatches
//
// --batch-size is b, the images that each device gets; k devices train with minibatches of k*b.
// Each run is made with several seeds, because one run says little: another start or another order
// of the images may make it better or worse by more than the learning rate does.
#include "your_part.h"

#include <math.h>

// Trains the replicas for some epochs, with minibatches of k * b images in an order made from the
// seed, and returns the accuracy that device 0's replica then has on test_iter. The epochs are
// those of exercise 1; they may be written in the same way.
double accuracy_after(Replicas *r, const Dataset *data, int epochs, int b, float lr, uint64_t seed,
                      DataIter *test_iter) {
    // SOLUTION (starter: return 0;)
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, r->k * b, true, seed);
    for (int epoch = 0; epoch < epochs; epoch++) {
        data_iter_start(iter, epoch);
        while (data_iter_next(iter, &X, &y))
            train_batch(X, y, r->params, r->devices, r->k, lr, losses);
    }
    data_iter_free(iter);
    return evaluate_accuracy_gpu(lenet, r->params[0], test_iter, r->devices[0]);
    // END SOLUTION
}

// The mean of n values, and their standard deviation (with n - 1; 0 for a single value).
void mean_and_spread(const double values[], int n, double *mean, double *spread) {
    // SOLUTION (starter: *mean = *spread = 0;)
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *spread = n > 1 ? sqrt(squares / (n - 1)) : 0;
    // END SOLUTION
}
