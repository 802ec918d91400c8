// # Exercise 2: one forward, one backward
//
// Chapter 1, "Across layers": "One loop calls the first function for all microbatches, then another
// loop calls the second one. [..] Until a microbatch goes backward, its activations are kept." So a
// stage keeps the activations of the whole minibatch.
//
// Difficulty: ★★☆☆
//
// **Aim.** Nothing says that backward must wait until all microbatches have gone forward. In the
// order *1F1B* (PipeDream, Narayanan et al., SOSP 2019; without its several versions of the
// weights) a stage does forwards only until the first gradient can be back, and then takes turns.
// The bubble stays what it is. What changes is how many microbatches are under way at a time, and
// with them the memory for activations: so m may grow until the bubble is small.
//
// **Your task.** Write `one_forward_one_backward()`, the order of one stage's work.
//
// **How it is checked.** For 1 to 8 stages and 1 to 14 microbatches your turns are compared with
// those of 1F1B, and played through: no stage may wait forever. Then LeNet and chapter 1's network
// of equal layers compute a step in your order: gradients must be right, and no stage may keep more
// activations than 1F1B does.
//
// **How to run.**
//
//     make exercise-06-2 ARGS=--check           the check alone: seconds
//     make exercise-06-2                        the check, then the experiment: seconds
//     make exercise-06-2 ARGS='--devices 8'     a pipeline of 8 stages instead of 4
//     make exercise-06-2 ARGS='--machine cluster-10gbe'    the same over slow links
//
// **What to hand in.** This file, and your answer: what does 1F1B change, what not, and why has the
// first stage the most activations? How large would you choose m? And over slow links?
#include "your_part.h"

// `one_forward_one_backward()` writes what stage i of k (0 is the first) does with m microbatches,
// in its order, into `turns`, and returns how many turns these are. A turn is {false, j},
// microbatch j forward, or {true, j}, microbatch j backward; microbatches count from 0.
//
// - Warm-up: k - 1 - i forwards, one for each stage behind it; or all m, if there are fewer.
// - Then one forward and one backward in turns, until all have gone forward.
// - Then the backwards that are left.
//
// Both forwards and backwards go in the order 0, 1, 2, ..
int one_forward_one_backward(int i, int k, int m, Turn turns[]) {
    // YOUR CODE HERE
    return 0;
}
