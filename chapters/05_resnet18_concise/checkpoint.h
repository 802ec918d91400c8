// checkpoint.h: all that a training needs to go on after it was stopped, in one file: a safetensors
// file with the parameters and buffers under the names of state_dict (so that it can be loaded like
// any other), and the rest as texts. Random numbers are functions of the seed and the epoch, so
// these two are their whole state.
//
// A second run begins where the first one began. If that was not the seed but a file (--load), the
// checkpoints of the first run hold those parameters too, as "start.0.weight" and so on: the file
// may be another one by then, or gone. PyTorch takes such a checkpoint with strict=False.
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "data_parallel.h"

typedef struct Checkpoint {
    int run;        // which of the program's runs, from 0
    int epoch;      // epochs of it that are done
    long step;      // minibatches of it that are done
    char *loss;     // of the last one
    char *settings; // what must be the same to go on: "devices 2, batch size 512, .."
    char *length;   // and for the second run, of which the first is over: "--epochs 3"
    char *history;  // the rows of the curves so far, as CSV
    enum { FROM_SEED, FROM_FILE, START_HELD } start; // FROM_FILE: which is not in the checkpoint
} Checkpoint;

// What a run starts from, on the host: Parameter.start is it, and here are the counts.
typedef struct Start {
    bool from_file;
    Counts counts;
} Start;

// The network as initialize() left it. free_counts() its counts.
Start start_of(const Module *net);
// Makes the parameters of a file the start: of --save or --checkpoint, or, with `held`, those that
// a checkpoint holds as the start of the next run.
void load_start(Start *start, Module *net, const char *path, bool held);
// Back to the start, for the next run.
void begin_again(Module *net, const Start *start);

// Writes the file, whole or not at all: whoever is stopped while writing has the one before. To be
// called after share_statistics() or evaluate_accuracy_gpus(): but for BN_LOCAL, the file has the
// running statistics of device 0 alone. The start is that of the runs, for START_HELD.
void checkpoint_save(const char *path, const Checkpoint *checkpoint, const Start *start,
                     const DataParallel *dp);

// What the file says of itself, with texts of its own. die()s if it is no checkpoint.
Checkpoint checkpoint_open(const char *path);
void checkpoint_close(Checkpoint *checkpoint);

// The hint of what is wrong with a file's contents.
extern const char checkpoint_damaged[];
// die()s if the training cannot go on from there. An epoch had `batches` minibatches when the file
// was written. Now it has `batches_now`, and the training ends after `last` of them.
void checkpoint_check(const char *path, const Checkpoint *checkpoint, const char *settings,
                      long batches, long batches_now, long last);

// Gives the replicas what they had. The training that goes on computes the same bits as one that
// was never stopped.
void checkpoint_load(const char *path, DataParallel *dp);

#endif
