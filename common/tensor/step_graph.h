// step_graph.h: training steps as graphs (see graph.h). The steps of a training are the same work
// on other numbers. A step of LeNet is dozens of small kernels, and the host needs some
// microseconds to launch each; recorded once, a step is one launch.
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
// A step is run as it is the first time, when memory may still have to be found for it; the second
// time it is recorded, but for the copies from the host that it begins with.
//
// A replay runs none of the step's C code, so what that changes on the host stays as it is. ResNet
// (chapter 5) does without graphs: its batch norms count their minibatches on the host.
#ifndef STEP_GRAPH_H
#define STEP_GRAPH_H

#include "tensor.h"

// Whether steps are recorded: "on" (default) or "off". CPU devices have no graphs.
void choose_graph(const char *name);

// What a step works on: all that must be the same for it to be the same work, but for the values in
// the tensors. What is left out is zero.
enum { STEP_NUMBERS = 4 };
typedef struct StepWork {
    Device *const *devices;
    int k;
    Tensor *const *params; // known by their shapes, their memory and that of their gradients
    int num_params;
    double numbers[STEP_NUMBERS]; // such as the learning rate, and the size of the minibatch
    const void *algorithm;        // which of several ways the step goes
} StepWork;

// Begins a step with this work. Returns whether it has been recorded.
bool step_graph_begin(const StepWork *work);
// If it has been: launches it, and gives losses[0..k-1], where the step writes its results.
void step_graph_launch(Tensor *losses[]);
// If not: its end. If it was recorded now, it is launched.
void step_graph_done(Tensor *const losses[]);

#endif
