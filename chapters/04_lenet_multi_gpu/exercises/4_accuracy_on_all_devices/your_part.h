// your_part.h: what the files of this exercise know of each other.
#ifndef YOUR_PART_H
#define YOUR_PART_H

#include "chapters/04_lenet_multi_gpu/exercises/replicas.h"

double evaluate_accuracy_on_all(Net *net, Tensor *device_params[][LENET_PARAMS],
                                DataIter *data_iter, Device *const devices[], int k);

#endif
