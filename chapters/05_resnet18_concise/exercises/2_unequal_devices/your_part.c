// # Exercise 2: devices of unequal speed
//
// Book: "Concise Implementation for Multiple GPUs" (multiple-gpus-concise), exercise 2: "Sometimes,
// different devices provide different computing power. We could use the GPUs and the CPU at the
// same time. How should we divide the work? Is it worth the effort? Why? Why not?"
//
// Difficulty: ★★☆☆
//
// How to run
//   make exercise-05-2                       the question, the answer, the evidence
//   make exercise-05-2 ARGS=--check          only check the solution: a second
//
// A step is over when the slowest device is, so each should get rows in proportion to its speed.
// Where no device differs from the next, one is made slower: device_set_slowdown() lets it sleep
// after each kernel. Where there is a GPU, a CPU device also works beside it. The same steps on two
// devices of a machine that need not be there (--machine) have modelled times: without noise.
#include "your_part.h"

#include <math.h>

// Divides n rows among k devices in proportion to their speeds (0 or more, not all 0). Device i
// gets shards[i].count rows from row shards[i].first on; rows stay in order, and each belongs to
// one shard. Its quota n speed[i] / (sum of speeds) is seldom a whole number. So give each the
// whole part of it, and the rows that are left over to those with the largest remainders, one each.
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

// The seconds that a step will take: all devices compute side by side, device i speed[i] rows per
// second (none, if it has no rows), then they exchange gradients and update, in `exchange` seconds.
double predict_step(const Range shards[], const double speed[], int k, double exchange) {
    // SOLUTION (starter: return 0;)
    double slowest = 0;
    for (int i = 0; i < k; i++)
        if (shards[i].count > 0) slowest = fmax(slowest, shards[i].count / speed[i]);
    return slowest + exchange;
    // END SOLUTION
}
