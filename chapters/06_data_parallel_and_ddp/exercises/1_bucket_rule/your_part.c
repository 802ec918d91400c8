// # Exercise 1: which gradients travel together?
//
// Chapter 6: "A bucket is closed when it has *reached* its size." How large
// should it be?
//
// Difficulty: ★★★☆
//
// **Aim.** DDP exchanges gradients in buckets during the backward pass. PyTorch's rule fills
// buckets up to a cap that you choose, the same for every network and machine. But you can
// *compute* in advance how long a step takes, from when each gradient is final and how long an
// exchange takes. So you can also compute the buckets. How much better are they, and where?
//
// **Your task.** Write `predict()`, which says how long the backward pass takes with the exchange
// under it, and `best_caps()`, which chooses the buckets.
//
// **How it is checked.** `predict()` must be right for random times, and for LeNet and ResNet-18 on
// the modelled clock. `best_caps()` must find a shortest time for random times, as judged by your
// own `predict()`. On the modelled clock, DDP with your buckets must be within 3% of it. If several
// choices are equally short, any of them is right.
//
// **How to run.** All times are modelled, so the experiment runs quickly.
//
//     make exercise-06-1 ARGS=--check                   the check alone: seconds
//     make exercise-06-1                                the check, then the experiment: seconds
//     make exercise-06-1 ARGS='--machine dgx-a100 --devices 8'    faster links, more of them
//     make exercise-06-1 ARGS='--machine cluster-10gbe'           slow ones
//
// **What to hand in.** This file, and your answer. Which caps are best for LeNet and for ResNet-18?
// What makes smaller caps slower, and what larger ones? What do your buckets do differently?
#include "your_part.h"

#include <math.h>

// `predict()` returns the seconds from the beginning of backward to its end and that of the last
// exchange. Backward alone takes `b->seconds`. Gradient p has `b->sizes[p]` floats of 4 bytes, is
// final `b->final[p]` seconds after the beginning, and is in bucket `bucket_of[p]` (0, 1, ..).
// `seconds_of(bytes)` says how long an exchange of that many bytes takes. The exchange of a bucket
// begins when all its gradients are final *and* the exchange of the bucket before it has ended.
double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    // YOUR CODE HERE
    return 0;
}

// `best_caps()` writes the bucket of each gradient into `bucket_of` and returns the number of
// buckets, so that `predict()` returns as little as possible. Bucket 0 has the last gradient, and
// perhaps some before it. Bucket 1 has those before these, and so on, down to gradient 0.
//
// ResNet-18's 76 gradients can be cut into buckets in 2^75 ways, too many to try. But the best way
// to exchange the gradients from p on does not depend on how those before p are exchanged.
int best_caps(const Backward *b, ExchangeTime *seconds_of, int bucket_of[]) {
    // YOUR CODE HERE
    return 0;
}
