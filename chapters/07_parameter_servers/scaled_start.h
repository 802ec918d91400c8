// scaled_start.h: a start for LeNet from which it learns at once.
#ifndef SCALED_START_H
#define SCALED_START_H

#include <stdint.h>

// Parameters from which LeNet learns from the first step on: lenet_init()'s numbers, so scaled that
// what goes through the layers keeps its size (He et al., ICCV 2015). free() them.
float *scaled_start(uint64_t seed);

#endif
