// synthetic_step.h: a training step of a network that is a table of layers, on devices that compute
// nothing: how long would it take on a machine? What is enqueued are the book's own kernels with
// the shapes of each layer; their addresses mean nothing. chapters/08_many_machines/many_ranks.h
// computes the same for many ranks at once; this simulates each of them.
#ifndef SYNTHETIC_STEP_H
#define SYNTHETIC_STEP_H

#include "common/model/machine.h"
#include "common/device/queue.h"
#include "chapters/08_many_machines/layer_tables.h"

typedef struct Step {
    const NetworkTable *network;
    int devices, images; // images on each device
    double bucket_bytes; // gradients are exchanged when there are so many
    bool tf32;
} Step;

// Modelled seconds of one step: forward, backward, update, and beside backward an exchange for each
// bucket, by a ring on the devices' communication queues. The images are on the devices already.
// Each device is launched for by a host thread of its own; the launches that an exchange consists
// of are free, because in NCCL a whole exchange is one kernel. Closes all devices, and stops the
// modelled clock when it is done.
double step_seconds(const Machine *machine, const Step *step);

// An allreduce of data[i][0..n) by a ring in the order of the k queues, which belong to k different
// devices; room[i] has place for the longest of k parts. The vectors must be ready for the queues.
void ring_on_queues(Queue *const queues[], float *const data[], float *const room[], size_t n,
                    int k);

#endif
