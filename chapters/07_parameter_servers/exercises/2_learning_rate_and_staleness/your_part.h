// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/flags.h"
#include "delays.h"

float lr_factor(long staleness);
AddPush add_stale_push;

void check(const Flags *flags); // check.c: is it right?

#endif
