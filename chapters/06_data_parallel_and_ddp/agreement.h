// agreement.h: whether the wrappers compute what one device computes.
#ifndef AGREEMENT_H
#define AGREEMENT_H

#include "common/data/fashion_mnist.h"

// Trains LeNet for `steps` steps in each way on 1, 2 and 3 devices, and after each step compares
// with what one device makes of the same parameters. Prints the largest difference, as a part of
// what the step changed, and ends the program with an error if it is more than rounding
// explains.
void compare_with_one_device(DataIter *iter, int steps, float lr);

#endif
