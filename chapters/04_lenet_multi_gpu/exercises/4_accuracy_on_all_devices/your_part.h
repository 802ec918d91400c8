// your_part.h: what the files of this exercise know of each other: first your part.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "common/program/exercise.h"
#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"

double evaluate_accuracy_on_all(Net *net, Tensor *device_params[][LENET_PARAMS],
                                DataIter *data_iter, Device *const devices[], int k);

extern const CheckPart check_parts[]; // check.c: is it right?

#endif
