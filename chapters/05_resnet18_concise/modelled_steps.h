// modelled_steps.h: training on model devices, beside the devices that compute: what an epoch takes
// k devices of a stated machine, and how much memory a device needs. Nothing is computed, so the
// answers come at once, and are the same on every computer; the steps are train_step()'s.
#ifndef MODELLED_STEPS_H
#define MODELLED_STEPS_H

#include "common/model/machine.h"
#include "data_parallel.h"

typedef struct ModelledEpoch {
    double seconds; // of training, on the machine
    double copies;  // the part of it, 0..1, that would be saved if copies took no time. Nearly all
                    // of them are the exchange; the images' way to the devices is what is left of
                    // it on one device
} ModelledEpoch;

// Of `images` images of pixels x pixels, one channel, in minibatches of batch_size for all k
// devices together, as train_epochs() trains: the host waits after each step, the last minibatch
// may be smaller. The allreduce is the chosen one, the machine modelled_machine(), which must have
// k devices; their memory is taken to be enough. The modelled clock begins anew, and the network is
// taken off its devices.
ModelledEpoch modelled_epoch(Module *net, int k, BatchNormMode bn, int images, int pixels,
                             int batch_size);

// Bytes that one device alone holds after a training step: parameters, gradients, activations.
// (What is exchanged between several takes some MB more.) They do not depend on the machine, but
// there must be one: clock and network are treated as above.
size_t modelled_memory(Module *net, int pixels, int batch_size);

// The largest minibatch with which that fits into the memory of a machine, this one or another: one
// image more and it does not. 0: not even one image. Looks no further than MOST_IMAGES.
enum { MOST_IMAGES = (1 << 15) - 1 };
int largest_batch(Module *net, const Machine *machine, int pixels);

#endif
