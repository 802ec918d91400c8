// # Exercise 1: k devices, minibatches of k*b images
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 1: "When training on k GPUs, change
// the minibatch size from b to k*b, i.e., scale it up by the number of GPUs."
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-04-1                                    the question, the answer, the evidence
//   make exercise-04-1 ARGS=--check                       only check the solution: seconds
//   make exercise-04-1 ARGS='--batch-size 256 --train-size 60000 --epochs 10'    the book's sizes
//
// --batch-size is b, the images that each device gets. The book has b = 256 and 60000 images; the
// defaults are smaller, so that a laptop answers in two minutes.
#include "your_part.h"

// One pass over the data, number `epoch`, on k devices: minibatches of k * b images, so that each
// device has b of them in each step, as many as if it were alone. data_iter_new(data, batch_size,
// true, seed) makes the minibatches; data_iter_start() begins an epoch, data_iter_next() gets a
// minibatch, data_iter_free() ends it all: see common/data/fashion_mnist.h. train_batch() of
// chapter 4 trains on one minibatch. Returns how many updates were made.
int train_epoch(Replicas *r, const Dataset *data, int epoch, int b, float lr, uint64_t seed) {
    // SOLUTION (starter: return 0;)
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
    // END SOLUTION
}
