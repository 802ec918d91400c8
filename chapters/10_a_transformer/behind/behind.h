// behind.h: the runs that the chapter compares, their tables and pictures.
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/device/trace.h"
#include "common/model/machine.h"
#include "../mesh.h"
#include "../mistakes.h"

enum { COMPARED_STEPS = 20, MOST_COMPARED = 5 };

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

// runs.c: the first steps of a training, on devices 0 to k-1, with the same minibatches each time.
// Ends the program with an error if a device does not send the bytes of the formula.
VitRun run_steps(const VitPlan *plan, const Dataset *data);
// The second step, on devices without values, and how long it takes on the machine.
VitRun model_step(const VitPlan *plan, const Machine *machine, bool traced);
void vit_run_free(VitRun *run);
// How many parameters differ in any bit; NAN without values.
double num_different_numbers(const VitRun *a, const VitRun *b);

// ranks.c, or no_ranks.c where there is one process. In a program of several ranks, the former
// comes before everything else. The latter makes the first steps on a mesh over all ranks, and on
// one device alone, and prints both.
void ranks_before_flags(void);
void compare_over_ranks(const VitPlan *plan, const Dataset *data, int threads);

// tables.c: n runs on different numbers of devices: whether they have the bits of the first.
void print_bits(const VitRun runs[], int n);
// What the devices send in a step, counted and by the formula, beside data parallelism. Returns how
// many times as much splitting the layers sends.
double print_sent(const VitRun *run);
// What a device needs in each run. runs[0] is one device without a limit, and the others have this
// limit (in bytes; INFINITY: none).
void print_split_memory(const VitRun runs[], int n, double limit);
// Meshes beside one device (runs[0]): whether they have its bits, and what a device sends.
void print_meshes(const VitRun runs[], int n);
// A run that was not stopped (runs[0]), one that wrote its checkpoint (runs[1]), and those that
// went on from there.
void print_resharded(const VitRun runs[], int n);
// Each mistake, beside the right run (runs[0]).
void print_mistakes(const VitRun runs[], const VitRun first[]);
// A step of a large network on four devices of three machines, split in both ways. Returns the
// largest number of images for which, on the first, splitting the layers is faster.
double print_when_it_pays(void);
// Steps of the same network on eight devices as a mesh. Returns over how many devices a network is
// split in the fastest mesh on the first machine, with the fewest images.
double print_best_mesh(void);
// For the figure to move: one step on the machine of the modelled clock, split in both ways, as a
// table and as book_output("_costs.csv").
void tell_costs(const VitPlan *plan);
// The second block of a large network on four GPUs, forward and backward, as a picture; nothing
// with
// --machine none.
void draw_block(const char *png);

// bfloat16.c: up to 1,024 gradients in bfloat16, added in three ways, as book_output("_bf16.csv")
// and a picture. Returns how many times as large the error is along a ring as up a tree.
double draw_sums(const VitPlan *plan, const Dataset *data);
// How many weights do not move in a short training, with and without a float32 copy.
void print_unmoved(VitPlan plan, const Dataset *data);
