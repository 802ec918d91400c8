// # Exercise 1: which gradients travel together?
//
// Chapter 6, buckets.c: "Buckets lie between the two: some gradients
// at a time." How large should they be?
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
// **How it is checked.** Your buckets are gone through gradient by gradient, for LeNet, ResNet-18
// and networks of single large or tiny tensors: each must be closed when it has reached its cap,
// also one that is just hit, and none before. What `predict()` says must be right for times that
// are given, and then within 0.1 % of what chapter 6's own DDP takes on the modelled clock.
//
// **How to run.** All times are modelled, so the experiment takes no time itself.
//
//     make exercise-06-1 ARGS=--check                   the check alone: seconds
//     make exercise-06-1                                the check, then the experiment: seconds
//     make exercise-06-1 ARGS='--machine dgx-a100 --devices 8'    faster links, more of them
//
// **What to hand in.** This file, and your answer: which size is best for LeNet and for ResNet-18,
// what makes smaller ones slower, what larger ones, and why PyTorch's first bucket is a small one.
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
    // SOLUTION (starter: return 0;)
    size_t filled = 0;
    int b = 0;
    for (int p = num_params - 1; p >= 0; p--) {
        if (filled >= (b == 0 ? first_bytes : bytes)) {
            filled = 0;
            b++;
        }
        bucket_of[p] = b;
        filled += sizes[p] * sizeof(float);
    }
    return b + 1;
    // END SOLUTION
}

// `predict()` returns the seconds from the begin of backward to the end of backward and of the last
// exchange. Gradient p is final `b->final[p]` seconds after backward began, and backward alone
// takes `b->seconds`. `seconds_of(bytes)` says what an exchange of so many bytes takes. The
// exchange of a bucket begins when all its gradients are final *and* the exchange of the bucket
// before it has ended.
double predict(const Backward *b, const int bucket_of[], int num_buckets,
               ExchangeTime *seconds_of) {
    // SOLUTION (starter: return 0;)
    double end = 0;
    for (int bucket = 0; bucket < num_buckets; bucket++) {
        double begin = end;
        size_t bytes = 0;
        for (int p = 0; p < b->num_params; p++) {
            if (bucket_of[p] != bucket) continue;
            begin = fmax(begin, b->final[p]);
            bytes += b->sizes[p] * sizeof(float);
        }
        end = begin + seconds_of(bytes);
    }
    return fmax(end, b->seconds);
    // END SOLUTION
}
