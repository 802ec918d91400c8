// # Exercise 1: find the test that the average of averages fails
//
// Book: "Training on Multiple GPUs" (multiple-gpus), section "Distributing Data". (The exercise is
// not the book's.)
//
// Difficulty: ★☆☆☆
//
// **Aim.** A colleague's program lets each device average the gradients of its own rows, and then
// averages these averages. It is compared with one device, for each minibatch of an epoch: 60000
// images in minibatches of 256, on 2, 4 and 8 devices. All three tests pass. But the program is
// wrong, and another test would show it. Which?
//
// **Your task.** Write `first_wrong_minibatch()`, which says where in an epoch the mistake shows,
// and `fewest_devices()`, which finds a test.
//
// **How it is checked.** Both functions are called for epochs that are drawn at random, on 1 to 8
// devices. Some of these epochs have only full minibatches, some end with a shorter one, and some
// have fewer rows than devices. What your functions return is compared with what a solution
// returns.
//
// **How to run.** The experiment asks your part for a minibatch, and computes its gradients.
//
//     make exercise-03-1 ARGS=--check               the check alone: a second
//     make exercise-03-1                            the check, then the experiment: some seconds
//     make exercise-03-1 ARGS='--batch-size 250'    another size of minibatches
//
// **What to hand in.** This file, and two sentences: which test would you have added, and why did
// the colleague's three tests all pass?
#include "your_part.h"

// An epoch takes its images in minibatches of `batch_size`; only the last one may be shorter. They
// count from 0, and `split_batch()` splits each of them over k devices.
//
// `first_wrong_minibatch()` returns the number of the first minibatch for which an average of
// averages is not the gradient, or -1 if it is right for the whole epoch. Wrong means wrong for
// some images; for others it may be right by chance. A device without rows computes 0/0, and then
// the average of averages is not even a number: that is wrong, too.
int first_wrong_minibatch(int images, int batch_size, int k) {
    // YOUR CODE HERE
    return -1;
}

// `fewest_devices()` returns the smallest number of devices on which the mistake shows in such an
// epoch.
int fewest_devices(int images, int batch_size) {
    // YOUR CODE HERE
    return 0;
}
