// synthetic_step.h: a training step of a network that is a table of layers, on devices that compute
// nothing: how long would it take on a machine? What is enqueued are the book's own kernels with
// the shapes of each layer; their addresses mean nothing. chapters/08_many_machines/many_ranks.h
// computes the same for many ranks at once; this simulates each of them.
#ifndef SYNTHETIC_STEP_H
#define SYNTHETIC_STEP_H

#include "common/model/machine.h"
#include "chapters/08_many_machines/layer_tables.h"

typedef struct Step {
    const NetworkTable *network;
    int devices, images; // images on each device
    double bucket_bytes; // gradients are exchanged when there are this many
    bool tf32;
} Step;

// Modelled seconds of one step: forward, backward, update, and beside backward an exchange for each
// bucket, by chapter 2's ring on the communication queues. The images are on the devices already.
// One host thread per device launches its kernels; an exchange's launches are free, because in NCCL
// a whole exchange is one kernel. Closes all devices, and stops the modelled clock.
double step_seconds(const Machine *machine, const Step *step);

#endif
