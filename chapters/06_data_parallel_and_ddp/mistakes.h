// mistakes.h: what can go wrong with DDP.
#ifndef MISTAKES_H
#define MISTAKES_H

#include "common/data/fashion_mnist.h"

// Makes five mistakes on purpose, and prints the message or the figure that gives each away. Ends
// the program with an error if one of them is not noticed.
void make_mistakes(DataIter *batches);

#endif
