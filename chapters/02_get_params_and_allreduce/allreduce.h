// allreduce.h: sum a vector over all devices. Book: "Multiple GPUs", section "Data Synchronization".
#ifndef ALLREDUCE_H
#define ALLREDUCE_H

#include "../../common/tensor.h"

// data[i] is on device i; afterwards each holds the sum of all, the same bits on each. Enqueued, not
// waited for. The k tensors have one shape and are on k different devices.
//
// This is the book's version, a star: device 0 receives from all others, adds, and sends the sum back.
// 2 (k-1) n bytes cross for tensors of n bytes, all of them through device 0.
void allreduce(Tensor *const data[], int k);

#endif
