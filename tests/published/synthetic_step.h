// synthetic_step.h: a training step of a network that is a table of layers, on devices that compute
// nothing: how long would it take on a machine? What is enqueued are the book's own kernels with
// the shapes of each layer; their addresses mean nothing.
#ifndef SYNTHETIC_STEP_H
#define SYNTHETIC_STEP_H

#include "common/model/machine.h"
#include "common/device/queue.h"
#include "chapters/08_many_machines/layer_tables.h"

// When and how the gradients are exchanged.
typedef enum {
    AFTER_BACKWARD, // as one vector, by chapter 2's ring
    IN_BUCKETS, // while backward goes on, as frameworks do: a ring on the devices' communication
                // queues for each bucket, which is closed when it has its size or more
} Exchange;

typedef struct Step {
    const NetworkTable *network;
    int devices, images; // images on each device
    Exchange exchange;   // of more than one device
    double bucket_bytes; // of IN_BUCKETS
    bool tf32;
    bool ranks; // each device is launched for by a host thread of its own
} Step;

// Modelled seconds of one step: forward, backward, exchange, update. The images are on the devices
// already. Without `ranks` one host thread launches for all devices of a host; the launches that an
// exchange consists of are free, because in NCCL a whole exchange is one kernel.
// Closes all devices, and stops the modelled clock when it is done.
double step_seconds(const Machine *machine, const Step *step);

// Images per second on all devices together, and what part that is of so many times one device's.
double images_per_second(const Machine *machine, const Step *step);
double scaling_efficiency(const Machine *machine, const Step *step);

// An allreduce of data[i][0..n) by a ring in the order of the k queues, which are those of k
// devices; room[i] has place for the longest of k parts. What the queues were given before is
// waited for, so the vectors must be ready there.
void ring_on_queues(Queue *const queues[], float *const data[], float *const room[], size_t n,
                    int k);

// Modelled seconds of the same alone, for vectors of so many bytes. `order` is that of the devices,
// NULL: 0, 1, ...; with `one_launch` the host needs no time for its parts.
double ring_seconds(const Machine *machine, const int order[], int k, double bytes,
                    bool one_launch);
// The same, half of the vector by that ring and the other half, at the same time, by one that goes
// the other way round.
double two_rings_seconds(const Machine *machine, const int order[], int k, double bytes);

// What nccl-tests calls the bus bandwidth of an allreduce: bytes per second that the busiest of
// k devices has to send at least.
double busbw(double bytes, double seconds, int k);

#endif
