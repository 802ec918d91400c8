// # Exercise 1: which gradients travel together?
//
// Chapter 6: "A bucket is closed when it has *reached* its size." How large
// should it be?
//
// Difficulty: ★★☆☆
//
// **Aim.** DDP exchanges gradients in buckets while backward goes on. Small buckets are soon on
// their way, and each of them costs launches and latency; of one large bucket nothing is hidden
// under backward. Between the two lies a best size, and it can be *computed*, from when each
// gradient is final and from what an exchange takes. How near is that to the truth, and when not?
//
// **Your task.** Write `fill_buckets()`, the rule of PyTorch's DistributedDataParallel, and
// `predict()`, which says how long backward takes with the exchange under it.
//
// **How it is checked.** Your buckets are compared with PyTorch's, for gradients and caps that are
// drawn, also caps that are just hit, and for LeNet and ResNet-18. What `predict()` says must be
// right for times that are drawn, and for backward and exchange on the modelled clock.
//
// **How to run.** All times are modelled, so the experiment takes no time itself.
//
//     make exercise-06-1 ARGS=--check                   the check alone: seconds
//     make exercise-06-1                                the check, then the experiment: seconds
//     make exercise-06-1 ARGS='--machine dgx-a100 --devices 8'    faster links, more of them
//
// **What to hand in.** This file, and your answer: which sizes are best for LeNet and for
// ResNet-18, what makes smaller ones slower, what larger ones, and why PyTorch's first bucket is a
// small one.
#include "your_part.h"

#include <math.h>

// `fill_buckets()` writes `bucket_of[p]`, the bucket (0, 1, 2, ...) that the gradient of parameter
// p goes into, and returns how many buckets there are. Gradient p has `sizes[p]` floats of 4 bytes.
//
// - Gradients go into buckets in the order in which backward computes them: the last one first.
// - A bucket is closed as soon as it has *reached* its cap; the next gradient opens a new one.
// - The cap of the first bucket is `first_bytes`, that of all others is `bytes`.
int fill_buckets(const size_t sizes[], int num_params, size_t first_bytes, size_t bytes,
                 int bucket_of[]) {
    // YOUR CODE HERE
    return 0;
}

// `predict()` returns the seconds from the begin of backward to the end of backward and of the last
// exchange. Gradient p is final `b->final[p]` seconds after backward began, and backward alone
// takes `b->seconds`. `seconds_of(bytes)` says what an exchange of so many bytes takes. The
// exchange of a bucket begins when all its gradients are final *and* the exchange of the bucket
// before it has ended.
double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    // YOUR CODE HERE
    return 0;
}
