// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "chapters/05_resnet18_concise/exercises/networks.h"

double train_epoch(DataParallel *dp, DataIter *iter, int epoch, float lr);
uint64_t bytes_of_step(const Module *net, int k, BatchNormMode bn);

extern const CheckPart check_parts[]; // check.c: is it right?

#endif
