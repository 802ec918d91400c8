// your_part.h: what the files of this exercise know of each other: first your part.
#pragma once

#include "overlap.h"

void gradient_is_final(Overlap *o, int i, int p);
void update_all(Overlap *o, float lr, int batch_size);
