// modelled.h: how long an epoch would take on 1, 2, 4, 8 devices of a machine that you need not
// have, and what takes so long. All of it is train_batch() on devices that compute nothing, timed
// by the modelled clock (common/model/modelled_clock.h).
#ifndef MODELLED_H
#define MODELLED_H

#include <stdio.h>

#include "common/model/machine.h"

// Two ways to launch the same kernels: --graph off and --graph on.
typedef enum { ONE_BY_ONE, AS_GRAPH, NUM_WAYS } Way;

// Seconds of an epoch, and what they are spent on.
typedef struct EpochParts {
    double seconds;
    double exchange; // what it takes longer than without an exchange of gradients,
                     // so launches, copies, additions and waiting for each other
    double hosts;    // what it would take if devices and links took no time: the launches
} EpochParts;

enum { MAX_COUNTS = 5 };
typedef struct ModelledEpochs {
    const Machine *machine;
    int num_counts, counts[MAX_COUNTS];     // numbers of devices: 1, 2, 4, ..
    int batch_size, batches;                // of an epoch
    int launches[MAX_COUNTS];               // of a step, one by one, of kernels and copies
    EpochParts epoch[NUM_WAYS][MAX_COUNTS]; // [way][which number of devices]
} ModelledEpochs;

// Runs them, all steps of batch_size images, with the allreduce that was chosen. The modelled clock
// starts again and again meanwhile, and at last for the machine whose time it told before (there
// must be one); times that were asked for before do not change. On 1 device up to `most`, as far as
// the machine has them. `graph` is what choose_graph() gets afterwards.
ModelledEpochs model_epochs(int images, int batch_size, int most, const char *graph);

// A step on k devices as a timeline (timeline.h), launched one by one and as a graph. Leaves graphs
// off.
void draw_modelled_steps(const char *path, int k, int batch_size);

// A row for each number of devices; and a row of CSV for each of its ways, too.
void print_modelled_epochs(const ModelledEpochs *m);
void write_modelled_epochs(FILE *csv, const ModelledEpochs *m);

#endif
