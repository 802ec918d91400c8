// initialization.h: the book's demonstrations of where a network's parameters are. Book: "Concise
// Implementation for Multiple GPUs", section "Initializing the Network".
#ifndef INITIALIZATION_H
#define INITIALIZATION_H

#include "common/tensor/nn.h"

// Sends four observations, made from the seed, through the network, two on each of two devices;
// prints what comes out, and which devices hold parameters then.
void demonstrate_initialization(Module *net, uint64_t seed);

#endif
