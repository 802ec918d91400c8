// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "plan.h"

void step_in_parts(Ddp *ddp, const Plan *plan, const Tensor *X, const Tensor *y, float lr);

#endif
