// buckets.h: which gradients are exchanged together, by the rule of PyTorch's
// DistributedDataParallel.
#pragma once

#include <stddef.h>

// Parameters in the order in which they go into buckets: bucket b has order[first[b]] to
// order[first[b + 1] - 1].
typedef struct Buckets {
    int n, num_params;
    int *order;     // num_params numbers of parameters
    int *first;     // n + 1
    size_t *floats; // n: the numbers in each bucket
} Buckets;

// In bytes: PyTorch's defaults, and a size that no network reaches (one bucket for all).
#define FIRST_BUCKET_BYTES ((size_t)1 << 20)
#define BUCKET_BYTES       ((size_t)25 << 20)
#define ONE_BUCKET         ((size_t)-1)

// Puts the parameters into buckets, in this order. Parameter p has sizes[p] floats.
// (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3; `_compute_bucket_assignment_by_size`
// in PyTorch.) For buckets_free().
Buckets buckets_of(const size_t sizes[], const int order[], int num_params, size_t first_bytes,
                   size_t bytes);
void buckets_free(Buckets *buckets);

// The bucket that parameter p is in.
int bucket_with(const Buckets *buckets, int p);
