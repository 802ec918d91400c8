// step_graph.h: training steps as graphs (graph.h). All steps of a training do the same work with
// different numbers. A step of LeNet is dozens of small kernels, and the host needs some
// microseconds to launch each. Once a step is recorded, it is a single launch.
//
//     const StepWork work = {devices, k, params, n, .numbers = {lr, rows}};
//     if (step_graph_begin(&work)) {
//         ... begin_step, split_batch    // the next minibatch, to the same places as before
//         step_graph_launch(losses);     // and all that is done with it
//     } else {
//         ... the whole step
//         step_graph_done(losses);
//     }
//
// The first time, a step runs without a graph, because it may have to allocate memory. The second
// time it is recorded, except for the copies from the host with which it begins.
//
// Do not use this for steps that change something on the host: a replay runs none of the step's C
// code. (So ResNet does without it, because its batch norms count minibatches on the host.)
#pragma once

#include "tensor.h"

// Everything that must be the same for a step to be the same work, apart from the values in the
// tensors.
enum { STEP_NUMBERS = 4 };
typedef struct StepWork {
    Device *const *devices;
    int k;
    Tensor *const *params; // compared by shape, memory and memory of the gradient
    int num_params;
    double numbers[STEP_NUMBERS]; // such as the learning rate, and the size of the minibatch
    const void *algorithm;        // which of several methods the step uses
} StepWork;

// Begins a step with this work. Returns whether it has been recorded. (CPU devices have no graphs.)
bool step_graph_begin(const StepWork *work);
// For a step that has been recorded: launches it, and sets losses[0..k-1] to where it writes its
// results.
void step_graph_launch(Tensor *losses[]);
// For any other step: ends it. If it was recorded just now, launches it.
void step_graph_done(Tensor *const losses[]);
