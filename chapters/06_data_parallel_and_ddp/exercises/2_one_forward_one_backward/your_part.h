// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "pipeline.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]);

extern const CheckPart check_parts[]; // check.c: is it right?

#endif
