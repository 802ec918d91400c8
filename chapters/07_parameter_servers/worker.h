// worker.h: a replica of LeNet whose parameters and gradients are one vector each, so that ranges
// of them can be sent.
#pragma once

#include "chapters/04_lenet_multi_gpu/lenet.h"

typedef struct Worker {
    Device *device;
    Tensor *params, *grads;     // (n): all parameters, one after the other, and their gradients
    Tensor *list[LENET_PARAMS]; // the same as in chapter 4: slices of those
    long based_on;              // pushes that had been applied to its parameters: servers_pull()
} Worker;

// How many floats there are, and where parameter p begins.
size_t lenet_floats(void);
size_t lenet_first(int p);

// With the parameters of lenet_init(seed). For worker_free().
Worker worker_new(Device *device, uint64_t seed);
void worker_free(Worker *worker);

// Adds the gradients of the summed loss of these rows, X (n,1,28,28) and y (n) on the worker's
// device, to worker->grads. The device's step must have begun. Returns the loss; enqueued.
Tensor *worker_gradients(Worker *worker, Tensor *X, Tensor *y);

// Parameters from which LeNet learns in its first steps, without chapter 4's plateau: lenet_init(),
// scaled so that values keep their size from layer to layer (He et al., ICCV 2015). free() them.
float *scaled_params(uint64_t seed);
