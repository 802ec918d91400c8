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
// **How it is checked.** 0 to 100 rows are divided among devices of several speeds: the shards must
// cover the rows in order and be as near to their quotas as whole rows allow. Training with your
// shards must end where training with equal shards does. What `predict_step()` says is compared
// with cases that are known.
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
    // SOLUTION (starter: for (int i = 0; i < k; i++) shards[i] = equal_range(n, k, i);)
    double total = 0, remainder[MAX_DEVICES];
    int left = n, first = 0;
    for (int i = 0; i < k; i++) total += speed[i];
    for (int i = 0; i < k; i++) {
        double quota = n * speed[i] / total;
        shards[i].count = (int)quota;
        remainder[i] = quota - shards[i].count;
        left -= shards[i].count;
    }
    for (; left > 0; left--) {
        int largest = 0;
        for (int i = 1; i < k; i++)
            if (remainder[i] > remainder[largest]) largest = i;
        shards[largest].count++;
        remainder[largest] = -1;
    }
    for (int i = 0; i < k; i++) {
        shards[i].first = first;
        first += shards[i].count;
    }
    // END SOLUTION
}

// `predict_step()` returns the seconds that a step will take. All devices compute side by side,
// device i `speed[i]` rows per second (one without rows has nothing to do); then they exchange
// gradients and update, which takes `exchange` seconds.
double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    // SOLUTION (starter: return 0;)
    double slowest = 0;
    for (int i = 0; i < k; i++)
        if (shards[i].count > 0) slowest = fmax(slowest, shards[i].count / speed[i]);
    return slowest + exchange;
    // END SOLUTION
}
