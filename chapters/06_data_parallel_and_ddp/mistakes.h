// mistakes.h: what can go wrong with DDP.
#ifndef MISTAKES_H
#define MISTAKES_H

#include "common/data/fashion_mnist.h"

// Makes five mistakes on purpose, and prints what gives each away. die()s if nothing does.
void make_mistakes(DataIter *batches);

#endif
