// on_a_machine.h: the book's training on a machine that need not be there.
#ifndef ON_A_MACHINE_H
#define ON_A_MACHINE_H

#include "notebook.h"

// Prints what an epoch of the book's ResNet-18 takes 1, 2, 4 and 8 devices of --machine, each with
// the book's minibatch, and the largest minibatch that a device of each machine has memory for. All
// of it is modelled, and says so. Nothing without a machine. Returns how many times as fast 2
// devices are as 1, with the star; NAN without a machine. For the end of the program: takes the
// network off its devices, and the modelled clock begins anew.
double print_on_a_machine(const Notebook *nb);

#endif
