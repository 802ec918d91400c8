// modelled.h: how long an epoch would take on 1, 2, 4 and 8 devices of a machine that need not be
// there, and what takes so long. All of it is train_batch() on devices that compute nothing, timed
// by the modelled clock (common/model/modelled_clock.h).
#ifndef MODELLED_H
#define MODELLED_H

#include <stdbool.h>
#include <stdio.h>

#include "common/model/machine.h"

// Three ways to launch the same kernels.
typedef enum {
    BY_PROGRAM,   // one by one, as this program does with --graph off
    BY_FRAMEWORK, // one by one, by a framework written in Python
    AS_GRAPH,     // a step as a whole (--graph on)
    NUM_WAYS
} Way;

// Seconds of an epoch, and what they are spent on.
typedef struct EpochParts {
    double seconds;
    double exchange; // what it takes longer than without an exchange of gradients,
                     // so launches, copies, additions and waiting for each other
    double hosts;    // what it would take if devices and links took no time: the launches
    double busy;     // for how much of it device 0 is at work
} EpochParts;

enum { MAX_COUNTS = 4 };
typedef struct ModelledEpochs {
    const Machine *machine;
    int num_counts, counts[MAX_COUNTS];          // numbers of devices: 1, 2, 4, 8, as far as it has
    int images, batch_size, batches;             // of an epoch
    int launches[NUM_WAYS][MAX_COUNTS];          // of a step, of kernels and copies, by one host
    int exchange_launches[NUM_WAYS][MAX_COUNTS]; // of these, for the exchange of gradients
    bool only_copies;                            // take time: launches and kernels are free
    EpochParts epoch[NUM_WAYS][MAX_COUNTS];      // [way][which number of devices]
} ModelledEpochs;

// Runs them, all steps of batch_size images, with the allreduce that was chosen. The modelled clock
// is started again and again meanwhile, and at last for the machine that it told the time of
// before, which must be one; times that were asked for before are not touched. `graph` is what
// choose_graph() shall have afterwards.
ModelledEpochs model_epochs(int images, int batch_size, const char *graph);

// The table, and a row of CSV for each of its figures.
void print_modelled_epochs(const ModelledEpochs *m);
void write_modelled_epochs(FILE *csv, const ModelledEpochs *m);
// Why the book's two GPUs were hardly faster than one, or slower, as far as these figures say.
void explain_modelled_epochs(const ModelledEpochs *m);

#endif
