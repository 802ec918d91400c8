// planted.h: mistakes that are made with DDP, planted, and what notices them.
#ifndef PLANTED_H
#define PLANTED_H

#include "common/data/fashion_mnist.h"

// Makes five mistakes, each of which ends with an error message or with figures that give it away;
// ends the program with an error if one of them is not noticed.
void plant_mistakes(DataIter *iter, float lr);

#endif
