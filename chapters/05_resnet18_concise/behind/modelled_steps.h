// modelled_steps.h: what an epoch takes k devices of a machine that you do not need to have.
// Nothing is computed, so the answer is there at once and is the same on every computer. The steps
// are train_step()'s.
#pragma once

#include "chapters/05_resnet18_concise/data_parallel.h"

typedef struct ModelledEpoch {
    double seconds;   // of training, on the machine
    double copies;    // the part of it, 0 to 1, that would be saved if copies took no time: the
                      // exchange, and the images' way to the devices
    double framework; // seconds if launches and kernels were a framework's
} ModelledEpoch;

// An epoch of this many images of pixels x pixels, one channel, in minibatches of batch_size for
// all k devices together, as the chapter's training_loop() does. The host waits after each step,
// and the last minibatch may be smaller. The allreduce is the chosen one, the machine
// modelled_machine(), which must have k devices; their memory is taken to be enough. The modelled
// clock begins anew, and the network is taken off its devices.
ModelledEpoch modelled_epoch(Module *net, int k, BatchNormMode bn, int images, int pixels,
                             int batch_size);
