// # Exercise 1: find the test that the average of averages fails
//
// Book: "Training on Multiple GPUs" (multiple-gpus), section "Distributing Data". (The exercise is
// not from the book.)
//
// Difficulty: ★☆☆☆
//
// **Aim.** In a colleague's program, each device averages the gradients of its own rows, and then
// the program averages these averages. It is compared with one device for each minibatch of an
// epoch: 60000 images in minibatches of 256, on 2, 4 and 8 devices. All three tests pass, but the
// program is wrong. Which other test would show this?
//
// **Your task.** Write `first_wrong_minibatch()`, which says where in an epoch the mistake shows,
// and `fewest_devices()`, which finds a test.
//
// **How it is checked.** Both functions are called for random epochs, on 1 to 8 devices. Some of
// these epochs have only full minibatches, some end with a shorter one, and some have fewer rows
// than devices. The results are compared with those of a solution.
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

// An epoch is divided into minibatches of `batch_size` images; only the last one may be shorter.
// They are numbered from 0, and `split_batch()` splits each of them over k devices.
//
// `first_wrong_minibatch()` returns the number of the first minibatch for which an average of
// averages is not the gradient, or -1 if it is right for the whole epoch. Wrong means wrong for
// some images; for others it may be right by chance. A device without rows computes 0/0, and then
// the average of averages is not even a number. This is also wrong.
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
