// checkpoint.h: all that a training needs to go on after it was stopped, in one file: a safetensors
// file with the parameters and buffers under the names of state_dict (so that it can be loaded like
// any other), and the rest as texts. Random numbers are functions of the seed and the epoch, so
// these two are their whole state.
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "data_parallel.h"

typedef struct Checkpoint {
    int run;        // which of the program's runs, from 0
    int epoch;      // epochs of it that are done
    long step;      // minibatches of it that are done
    char *settings; // what must be the same to go on: "devices 2, batch size 512, .."
    char *history;  // the rows of the curves so far, as CSV
} Checkpoint;

// Writes the file, whole or not at all: whoever is stopped while writing has the one before. To be
// called after share_statistics() or evaluate_accuracy_gpus(): but for BN_LOCAL, the file has the
// running statistics of device 0 alone.
void checkpoint_save(const char *path, const Checkpoint *checkpoint, const DataParallel *dp);

// What the file says of itself, with texts of its own. die()s if it is no checkpoint.
Checkpoint checkpoint_open(const char *path);
void checkpoint_close(Checkpoint *checkpoint);

// Gives the replicas what they had. The training that goes on computes the same bits as one that
// was never stopped.
void checkpoint_load(const char *path, DataParallel *dp);

#endif
