// size.h: how much of the data, and how long: the book's runs, smaller ones for a machine without a
// GPU, or those of --quick, smaller still.
#ifndef SIZE_H
#define SIZE_H

#include "notebook.h"

// What parse_flags() is to begin with: sizes that choose_size() replaces.
Flags flags_without_size(void);

// Chooses what was not given on the command line.
void choose_size(Notebook *nb);

// Says how much a smaller run leaves out, and how long it and the full one take here; of a run
// without values, that it is one. Nothing of the book's run.
void say_size(const Notebook *nb);

#endif
