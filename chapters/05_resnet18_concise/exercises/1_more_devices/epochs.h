// epochs.h: an epoch of the book's images on 1 to 16 devices of a machine that need not be there.
#ifndef EPOCHS_H
#define EPOCHS_H

#include <stdio.h>
#include "common/tensor/nn.h"

// Prints and writes them, with a minibatch of 256 for each device or one for all together.
void model_epochs(Module *net, FILE *csv, const char *way, bool for_each);

#endif
