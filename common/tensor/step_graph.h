// step_graph.h: training steps as graphs (see graph.h). The steps of a training are the same work
// on other numbers. A step of LeNet is dozens of small kernels, and the host needs some
// microseconds to launch each; recorded once, a step is one launch.
//
//     const StepWork work = {devices, k, .tensors = {{X_shards, k}, {params, n}}, .numbers = {lr}};
//     if (step_graph_replay(&work, losses)) return; // enqueued: all done
//     ... forward, backward, allreduce, update      // else enqueue it
//     step_graph_done(losses);
//
// A step is run as it is the first time, when memory may still have to be found for it; the second
// time it is recorded.
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
enum { STEP_LISTS = 4, STEP_NUMBERS = 4 };
typedef struct StepWork {
    Device *const *devices;
    int k;
    struct TensorList {
        Tensor *const *list;
        int n;
    } tensors[STEP_LISTS];        // known by their shapes, their memory and that of their gradients
    double numbers[STEP_NUMBERS]; // such as the learning rate
    const void *algorithm;        // which of several ways the step goes
} StepWork;

// If a step with this work has been recorded, launches it and gives losses[0..k-1], where the step
// writes its results.
bool step_graph_replay(const StepWork *work, Tensor *losses[]);
// The end of a step that was not replayed. If it was recorded, it is launched now.
void step_graph_done(Tensor *const losses[]);

#endif
