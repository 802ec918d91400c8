// book_steps.h: how long would a training step of chapter 4's LeNet or chapter 5's ResNet-18 take
// on a machine? The chapters' own code trains there, on devices that compute nothing.
#ifndef BOOK_STEPS_H
#define BOOK_STEPS_H

#include "common/model/machine.h"

typedef struct BookStep {
    bool resnet18; // else LeNet
    int devices, images;
    bool tf32;
    bool graph;     // LeNet: the step is one CUDA graph
    bool framework; // launched by a framework written in Python, with its libraries' kernels
} BookStep;

// Modelled seconds from a minibatch in the host's memory to new parameters, when memory is no
// longer new. Closes all devices, and stops the modelled clock when it is done.
double book_step_seconds(const Machine *machine, const BookStep *step);

#endif
