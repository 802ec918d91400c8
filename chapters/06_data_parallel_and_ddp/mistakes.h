// mistakes.h: what can go wrong with DDP.
#pragma once

#include "common/data/fashion_mnist.h"

// Makes five mistakes on purpose, and prints what gives each away. die()s if nothing does.
void make_mistakes(DataIter *batches);
