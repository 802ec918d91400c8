// factors.h: which of the things that the book changes at once changes the accuracy?
#ifndef FACTORS_H
#define FACTORS_H

#include "common/program/flags.h"

// Trains a small network from several seeds in seven ways, which differ from one to the next in one
// thing (--experiment). Prints a table and what follows from it, and writes each training's figures
// (CSV). Of the flags, --batch-size, --lr, --epochs, --seed, --train-size, --test-size and --data
// count. About 16 minutes on one core.
void separate_factors(const Flags *flags);

#endif
