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
// **How it is checked.** Mean and spread of drawn values, and what LeNet on 1 to 4 devices has
// learned from drawn images, are compared with what a solution makes of them. Most images are
// black: from these LeNet learns only how often each label comes, which tells one order of
// minibatches from another. What you return must be the accuracy at the end.
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
    // YOUR CODE HERE
    return 0;
}

// `mean_and_spread()` computes the mean $m$ of $n$ values $v_i$ and their standard deviation,
// $\sqrt{\sum_i (v_i - m)^2 / (n - 1)}$. A single value has the standard deviation 0.
void mean_and_spread(const double values[], int n, double *mean, double *spread) {
    // YOUR CODE HERE
    *mean = *spread = 0;
}
