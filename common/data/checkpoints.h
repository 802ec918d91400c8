// checkpoints.h: a network in a file, and a training that goes on after it was stopped.
//
// To keep a network's parameters, call save_parameters(). To start from such a file, call
// load_parameters(). The names, shapes and types are those of PyTorch's state_dict.
//
// To keep a training, call checkpoint_save() when an epoch has ended. To go on, call
// checkpoint_open(), then checkpoint_check(), then checkpoint_load(). What follows has the same
// bits as in a training that was never stopped. Do not save within an epoch: the place in the epoch
// is not in the file. (Random numbers are functions of the seed and the epoch, so nothing else is
// needed for them.)
//
// A checkpoint is a file of parameters too, for load_parameters() and for PyTorch; it says the rest
// in texts. Two more kinds of tensors may be in it, for which PyTorch needs strict=False: batch
// norm's statistics of the other devices ("replica1.1.running_mean"), and what a second run is to
// start from ("start.0.weight"), because the file that was loaded may have changed by then.
#ifndef CHECKPOINTS_H
#define CHECKPOINTS_H

#include "common/tensor/nn.h"

// Writes the copies of one device. Waits for it. die()s if that fails; an old file is then as it
// was.
void save_parameters(Module *net, Device *device, const char *path);
// The file's parameters, buffers and counts become the network's start, and it begins there
// (restart()). die()s if the file does not hold just these names and shapes, apart from what else a
// checkpoint has.
void load_parameters(Module *net, const char *path);

typedef struct Checkpoint {
    int run;        // which of the program's runs, from 0
    int epoch;      // how many of its epochs are done
    long step;      // and how many minibatches
    char *loss;     // of the last minibatch
    char *settings; // what must be the same to go on: "devices 2, batch size 512, .."
    char *length;   // and for the second run, whose first run is over: "--epochs 3"
    char *history;  // the rows of the curves so far, as CSV
    // Where the runs start: at the seed, at a file that was loaded, or at what the checkpoint
    // holds.
    enum { FROM_SEED, FROM_FILE, START_HELD } start;
} Checkpoint;

// Writes the file, whole or not at all. `replicas` is the number of devices with batch norm
// statistics of their own; if it is 1, those of device 0 stand for all. START_HELD writes the
// network's start, too.
void checkpoint_save(const char *path, const Checkpoint *checkpoint, const Module *net,
                     Device *const devices[], int replicas);

// What the file says about the training. die()s if it is no checkpoint. For checkpoint_close().
Checkpoint checkpoint_open(const char *path);
void checkpoint_close(Checkpoint *checkpoint);
// die()s if the training cannot go on from there: settings or, in a second run, length are not what
// they were, or it would be over. An epoch had `batches` minibatches when the file was written. Now
// it has `batches_now`, and the training ends after `last` of them.
void checkpoint_check(const char *path, const Checkpoint *checkpoint, const char *settings,
                      const char *length, long batches, long batches_now, long last);
extern const char checkpoint_same_flags[]; // the hint for a checkpoint of other runs
// Gives all k devices what they had. They must hold copies (place_on()).
void checkpoint_load(const char *path, Module *net, Device *const devices[], int k, int replicas);
// Makes what a START_HELD checkpoint holds the network's start, as load_parameters() does.
void checkpoint_load_start(const char *path, Module *net);

#endif
