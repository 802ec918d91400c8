// overlap.h: chapter 4's training step with the exchange under backward: all of it but your part.
#pragma once

#include "common/tensor/autograd.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"

// LeNet on k devices, and how far a step's gradients have come.
typedef struct Overlap {
    int k;
    Device *devices[MAX_COMPUTING];
    Tensor *params[MAX_COMPUTING][LENET_PARAMS]; // parameter p of device i is params[i][p]
    // For your part. Each step begins with zeros, and with events that are reached.
    int num_final[LENET_PARAMS];                  // on how many devices gradient p is final
    Event final[MAX_COMPUTING][LENET_PARAMS];     // a point in the queue of device i at which it is
    Event exchanged[MAX_COMPUTING];               // a point after the exchanges of device i so far
    int calls, call[MAX_COMPUTING][LENET_PARAMS]; // so far; which one said that it is, from 1
} Overlap;

// The same start on each device, made from the seed; for overlap_close().
Overlap *overlap_open(Device *const devices[], int k, uint64_t seed);
void overlap_close(Overlap *o);

// As train_batch(), but while it goes backward it calls gradient_is_final(), and then update_all().
// In a trace (trace.h) what the first enqueues is labelled "exchange P", P being the number of the
// parameter, what the second does "update", and backward "backward Q" after Q calls of the first.
void overlap_step(Overlap *o, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);
