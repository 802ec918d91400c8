// # Exercise 2: devices of unequal speed
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 2: "Sometimes,
// different devices provide different computing power. We could use the GPUs and the CPU at the
// same time. How should we divide the work? Is it worth the effort? Why? Why not?"
//
// Difficulty: ★★☆☆
//
// **Aim.** A step is over when the slowest device is ready, so each device should get rows in
// proportion to its speed. What does that save, and would the fast device alone do as well? Two
// CPU devices are compared, of which one is slowed down (`device_set_slowdown()` lets it sleep
// after each kernel), and, where there is a GPU, that GPU and a CPU device beside it. The same
// steps on two devices of a machine that need not be there (`--machine`) have modelled times, which
// are free of noise.
//
// **Your task.** Write `shards_for()`, which divides the rows, and `predict_step()`, which says how
// long the step will then take.
//
// **How it is checked.** Rows are divided among 1 to 5 devices whose speeds are drawn: the shards
// must cover the rows in order, and be as near to their quotas as whole rows allow. A network is
// trained with your shards. And predict_step() is called for shards and speeds that are drawn.
//
// **How to run.**
//
//     make exercise-05-2 ARGS=--check          the check alone: a second
//     make exercise-05-2                       the check, then the experiment: some minutes
//
// **What to hand in.** This file, and your answer to the book's questions: how to divide the work,
// and when that is worth it. When should the slow device rather be left out?
#include "your_part.h"

#include <math.h>

// `shards_for()` divides n rows among k devices in proportion to their speeds (0 or more, not all
// of them 0). Device i gets `shards[i].count` rows from row `shards[i].first` on; rows stay in
// order, and each belongs to one shard. The quota of device i is $n v_i / \sum_j v_j$, where $v_i$
// is its speed. That is seldom a whole number, so give each device the whole part of its quota, and
// the rows that are left over to the devices with the largest remainders, one row each.
void shards_for(int n, const double speed[], int k, Range shards[]) {
    // YOUR CODE HERE
    for (int i = 0; i < k; i++) shards[i] = equal_range(n, k, i);
}

// `predict_step()` returns the seconds that a step will take. All devices compute side by side,
// device i `speed[i]` rows per second (one without rows has nothing to do); then they exchange
// gradients and update, which takes `exchange` seconds.
double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    // YOUR CODE HERE
    return 0;
}
