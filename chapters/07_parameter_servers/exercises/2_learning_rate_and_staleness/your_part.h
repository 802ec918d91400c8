// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "delays.h"

float lr_factor(long staleness);
AddPush add_stale_push;

extern const CheckPart check_parts[]; // check.c: is it right?

#endif
