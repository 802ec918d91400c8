// # Exercise 2: one forward, one backward
//
// Chapter 1, "Across layers": "One loop calls the first function for all microbatches, then another
// loop calls the second one. [..] Until a microbatch goes backward, its activations are kept." So a
// stage keeps the activations of the whole minibatch.
//
// Difficulty: ★★☆☆
//
// **Aim.** Backward does not have to wait until all microbatches have gone forward. In another
// order of work, *1F1B* (PipeDream, Narayanan et al., SOSP 2019), a stage keeps fewer of them at a
// time, and so needs less memory for activations.
//
// **Your task.** Write `one_forward_one_backward()`, which returns the order of one stage's work.
// Find this order: there is one that meets the conditions below.
//
// **How it is checked.** Your turns are played for 1 to 8 stages and 1 to 14 microbatches. No stage
// may wait forever or keep too much, and the step must be as short as fill-drain's. Then LeNet and
// chapter 1's network of equal layers compute a step in your order. The gradients must be right,
// and the activations must take few bytes.
//
// **How to run.**
//
//     make exercise-06-2 ARGS=--check           the check alone: seconds
//     make exercise-06-2                        the check, then the experiment: seconds
//     make exercise-06-2 ARGS='--devices 8'     a pipeline of 8 stages instead of 4
//     make exercise-06-2 ARGS='--machine cluster-10gbe'    the same over slow links
//
// **What to hand in.** This file, and your answer. What does 1F1B change, what does it not change,
// and why does the first stage have the most activations? How large would you choose m, and how
// large over slow links?
#include "your_part.h"

// `one_forward_one_backward()` writes what stage i of k (0 is the first) does with m microbatches
// into `turns`, in order, and returns the number of turns. A turn is {false, j} for microbatch j
// forward, or {true, j} for microbatch j backward. Microbatches are numbered from 0.
//
// - Both forwards and backwards go in the order 0, 1, 2, ..
// - A microbatch goes forward on stage i after it has on stage i - 1, and backward after it has on
//   stage i + 1. No stage waits forever.
// - Stage i keeps at most k - i microbatches that have gone forward but not yet backward.
// - If a forward takes 1 and a backward 2, the step is as short as fill-drain's: 3 (m + k - 1).
int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    // YOUR CODE HERE
    return 0;
}
