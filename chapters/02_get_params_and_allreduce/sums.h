// sums.h: whether an allreduce computes the sum, to the bit.
#ifndef SUMS_H
#define SUMS_H

#include "allreduce.h"

// Runs the algorithm on 1 to 8 devices, on vectors of 0 to 12345 whole numbers whose sums are
// known, and says what it tried. Ends the program with an error unless afterwards each device has
// the exact sums; devices without values are not checked, which it says.
void check_sums_of(const Allreduce *algorithm);

#endif
