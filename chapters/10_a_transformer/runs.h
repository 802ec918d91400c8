// runs.h: a few steps of training, on one device and on meshes: what they compute, send, keep, and
// how long they take on a modelled machine.
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/device/trace.h"
#include "common/model/machine.h"
#include "common/program/flags.h"
#include "mesh.h"
#include "mistakes.h"

enum { COMPARED_STEPS = 20 };

typedef struct VitPlan {
    int data, tensor; // the mesh's
    int width, batch_size, steps;
    float lr;
    bool shuffle, sequence;
    uint64_t seed;
    const Mistake *mistake;          // or NULL
    const char *resume, *checkpoint; // files to begin and end with, or NULL
} VitPlan;

// What a few steps of training did.
typedef struct VitRun {
    VitPlan plan;
    double losses[COMPARED_STEPS]; // means over the minibatch; NAN without values
    float *values;                 // num_values parameters at the end, as vit_join(); or NULL
    size_t num_values;
    bool equal_copies;
    // Of device 0, none has more: what it sends in a step, in all and to other networks; the most
    // that was allocated, and what of it were activations.
    size_t sent, sent_to_others, peak, activations;
    double seconds;   // of a step on a modelled machine
    TraceSpan *spans; // num_spans pieces of work in that step, if it was traced
    int num_spans;
} VitRun;

// For --sequence: die_usage()s if k devices do not get equally many images of each minibatch.
void check_equal_parts(const Flags *flags, int k);
// At most COMPARED_STEPS steps, with whole minibatches of so many images.
VitPlan vit_plan(const Flags *flags, int width, int images, int data, int tensor, bool sequence);
// The first steps of a training, on devices 0 to k-1, with the same minibatches each time. Ends the
// program with an error if a device does not send the bytes of the formula.
VitRun run_steps(const VitPlan *plan, const Dataset *data);
void run_all(const VitPlan plans[], int n, const Dataset *data, VitRun runs[]); // until interrupted
// The second step, on devices without values, and how long it takes on the machine.
VitRun model_step(const VitPlan *plan, const Machine *machine, bool traced);
void vit_run_free(VitRun *run);
void vit_runs_free(VitRun runs[], int n);
// How many parameters differ in any bit; NAN without values.
double num_different_numbers(const VitRun *a, const VitRun *b);
