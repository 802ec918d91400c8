// epochs.h: what an epoch of the book's images takes 1 to 16 devices of a machine that need not be
// there, with one minibatch for all devices together and with one for each.
#ifndef EPOCHS_H
#define EPOCHS_H

#include <stdio.h>
#include "chapters/05_resnet18_concise/modelled_steps.h"

enum { SAME_MINIBATCH, MINIBATCH_FOR_EACH, NUM_WAYS };
enum { NUM_EPOCHS = 5 }; // on 1, 2, 4, 8 and 16 devices
typedef struct Epochs {
    int n; // of them; fewer if the machine has no more devices, 0 without a machine
    ModelledEpoch of[NUM_WAYS][NUM_EPOCHS];
} Epochs;

// Prints a table of them.
Epochs model_epochs(Module *net);
// Rows of the exercise's CSV.
void write_epochs(FILE *csv, const Epochs *e);

#endif
