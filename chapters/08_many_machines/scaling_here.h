// scaling_here.h: do processes cost anything? 1, 2, 4, .. ranks beside as many devices in one
// process, on the same cores, for the same steps.
#ifndef SCALING_HERE_H
#define SCALING_HERE_H

#include <stdint.h>
#include "common/data/fashion_mnist.h"

// All ranks together; each trains LeNet with so many rows a step. Rank 0 prints. die()s if
// parameters differ in a bit.
void compare_with_one_process(const Dataset *data, int rows, uint64_t seed);

#endif
