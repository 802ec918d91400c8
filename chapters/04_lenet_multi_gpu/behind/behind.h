// behind.h: what two trainings are compared by, how long an epoch would take on other machines, and
// the picture of what was learned.
//
// After a training run, call complete_result(), and to compare two, print_comparison() and
// print_bytes(). For the times of epochs, call model_epochs(), then print_launches(),
// print_shares(), print_larger() and write_modelled_epochs().
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/model/machine.h"
#include "common/program/flags.h"

// ---- compare.c ---------------------------------------------------------------------------------

// "training on [cpu:0]: batch size 256, lr 0.2, 2350 minibatches"; there are this many images.
void print_run(Device *const devices[], int k, int batch_size, int images, float lr, long steps);

// What is known of a training run when it is over.
typedef struct Result {
    int k;                   // devices
    long steps;              // minibatches
    double acc;              // on the test images
    const char *diverged;    // ": diverged, ..", or ""
    uint64_t bytes_per_step; // that crossed between devices
    float *params;           // where it ended: all parameters, one after the other; free() it
    size_t num_params;       // how many floats that is
} Result;

// Adds the rest: copies the parameters of a device to `trained`, on the host. die()s if the bytes
// that crossed between the devices since ledger_reset() differ from an allreduce's formula.
void complete_result(Result *result, Tensor *const device_params[], Tensor *const trained[]);

// Whether both ended with the same parameters, to the last bit.
bool equal_to_the_bit(const Result *one, const Result *two);

// Two lines: accuracies and parameters.
void print_comparison(const Result *one, const Result *two);
// The line about bytes.
void print_bytes(const Result *r);

// ---- modelled.c: an epoch on 1, 2, 4, 8 devices of a machine that you need not have ------------
//
// All of it is train_batch() on devices that compute nothing, timed by the modelled clock
// (common/model/modelled_clock.h).

// Two ways to launch the same kernels.
typedef enum { ONE_BY_ONE, AS_GRAPH, NUM_WAYS } Way;

// Seconds of an epoch, and what they are spent on.
typedef struct EpochParts {
    double seconds;
    double exchange; // what it takes longer than without an exchange of gradients,
                     // so launches, copies, additions and waiting for each other
    double hosts;    // what it would take if devices and links took no time: the launches
} EpochParts;

enum { MAX_COUNTS = 5, MOST_LARGER = 2 };
typedef struct ModelledEpochs {
    const Machine *machine;
    int num_counts, counts[MAX_COUNTS];       // numbers of devices: 1, 2, 4, ..
    int batch_size, batches;                  // of an epoch
    int launches[MAX_COUNTS];                 // of a step, one by one, of kernels and copies
    EpochParts epoch[NUM_WAYS][MAX_COUNTS];   // [way][which number of devices]
    int num_larger, larger_size[MOST_LARGER]; // model_larger_minibatches()
    double larger[MOST_LARGER][MAX_COUNTS];   // seconds of an epoch as a CUDA graph
} ModelledEpochs;

// The machine for which a program with these flags models epochs; NULL: for none, because of
// --machine none, because --devices asks for one training, or because --steps 0 asks for no step.
const Machine *machine_of_epochs(const Flags *flags);

// Runs them, all steps of batch_size images, with the allreduce that was chosen. `machine` is that
// of the modelled clock, which starts again and again meanwhile, and at last for this machine;
// times that were asked for before do not change. On 1 device up to `most`, as far as the machine
// has them.
ModelledEpochs model_epochs(const Machine *machine, int images, int batch_size, int most);

// Adds the same epochs as CUDA graphs, with minibatches of 2 and 8 times as many images, as far as
// there are images.
void model_larger_minibatches(ModelledEpochs *m, int images);

// Draws a step as a timeline, launched one by one and as a graph.
void draw_lenet_step(const Machine *machine, const char *path, int k, int batch_size);

// Two tables about a step, with a row for each number of devices. In the second one, "the rest" is
// a step without the exchange, also in percent of one device's. And two lines about an
// epoch, with these and with the largest minibatches.
void print_launches(const ModelledEpochs *m);
void print_shares(const ModelledEpochs *m);
void print_larger(const ModelledEpochs *m);

// A row for each way and number of devices, in the CSV at this path. Rows of larger minibatches
// follow, called "graph of 512".
void write_modelled_epochs(const char *path, const ModelledEpochs *m);

// --curves: writes epochs on up to 16 devices to the CSV, and draws a step as a timeline, launched
// one by one and as a graph, to the SVG. For the figure to move in the book's page: no images are
// read.
void model_curves_and_step(const Machine *machine, const Flags *flags, const char *csv,
                           const char *svg);

// ---- predictions.c -----------------------------------------------------------------------------

// The first test images with predicted and true class; wrong ones are framed.
void draw_predictions(const char *path, Tensor *const params[], const Dataset *test,
                      Device *device);
