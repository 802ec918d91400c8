// # Exercise 2: the learning rate, and how it scales with k
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 2: "Compare accuracy for different
// learning rates. How does it scale with the number of GPUs?"
//
// Difficulty: ★★☆☆
//
// **Aim.** Exercise 1 made one run with each learning rate. But one run says little: with another
// start, or another order of the images, it may come out better or worse by more than the learning
// rate makes it. So here each run is made with twelve seeds, and what counts is the mean accuracy
// and how far the runs spread around it. Which learning rate is best for 1, 2 and 4 devices?
//
// **Your task.** Write `accuracy_after()`, one such run, and `mean_and_spread()`.
//
// **How it is checked.** Mean and spread are compared with known ones. Then 1, 2, 3 and 4 devices
// are trained with black images. All that LeNet can learn from these is how often each label comes,
// and the check knows what comes of that, update by update; if something else came, it names the
// mistake that leads there. With images that are not black, k devices must end as one does. And
// what is returned must be the accuracy that the parameters have at the end.
//
// **How to run.** `--batch-size` is b, the images that each device gets in a step.
//
//     make exercise-04-2 ARGS=--check     the check alone: seconds
//     make exercise-04-2                  the check, then the experiment: about two minutes
//     make exercise-04-2 ARGS='--epochs 2 --batch-size 8'    longer training, larger minibatches
//
// **What to hand in.** This file, and your answer: the best learning rate for each k, and whether
// twelve seeds are enough to say that it grows with k. Give the figures on which you rest that.
#include "your_part.h"

#include <math.h>

// `accuracy_after()` trains the replicas for some epochs, with minibatches of k*b images that are
// shuffled by the seed, and returns the accuracy that the replica of device 0 then has on
// `test_iter`. An epoch is that of exercise 1 and may be written in the same way;
// `evaluate_accuracy_gpu()` of common/data/evaluate.h computes the accuracy.
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

// `mean_and_spread()` computes the mean $m$ of $n$ values $v_i$ and their standard deviation,
// $\sqrt{\sum_i (v_i - m)^2 / (n - 1)}$. A single value has the standard deviation 0.
void mean_and_spread(const double values[], int n, double *mean, double *spread) {
    // SOLUTION (starter: *mean = *spread = 0;)
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *spread = n > 1 ? sqrt(squares / (n - 1)) : 0;
    // END SOLUTION
}
