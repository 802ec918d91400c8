// checkpoints.h: a network in a file, and a training that goes on after it was stopped.
//
// To keep a network's parameters, call save_parameters(). To start from such a file, call
// load_parameters(). Names, shapes and types are as in PyTorch's state_dict.
//
// To keep a training, call checkpoint_save() when an epoch has ended. To go on, call
// checkpoint_open(), then checkpoint_check(), then checkpoint_load(). The training then continues
// bit for bit as if it had never been stopped. Do not save within an epoch, because the place in
// the epoch is not in the file. (Random numbers are functions of the seed and the epoch, so the
// file needs nothing for them.)
//
// A checkpoint is also a file of parameters for load_parameters() and for PyTorch. Everything else
// is in texts, and in batch norm's statistics of the other devices ("replica1.1.running_mean"), for
// which PyTorch needs strict=False.
#ifndef CHECKPOINTS_H
#define CHECKPOINTS_H

#include "common/tensor/nn.h"

// Writes the copies of one device. Waits for it. If that fails, die()s and leaves an old file as it
// was.
void save_parameters(Module *net, Device *device, const char *path);
// The file's parameters, buffers and counts become the network's start, and it begins there
// (restart()). die()s if names or shapes are not the network's. The additional tensors of a
// checkpoint are ignored.
void load_parameters(Module *net, const char *path);

typedef struct Checkpoint {
    int run;        // which of the program's runs, from 0
    int epoch;      // how many of its epochs are done
    long step;      // and how many minibatches
    char *settings; // what must be the same to go on: "devices 2, batch size 512, .."
    char *length;   // what else must be the same to go on in the second run: "--epochs 3"
    char *history;  // the rows of the curves so far, as CSV
} Checkpoint;

// Writes the file, whole or not at all. Each of the first `replicas` devices has its own batch norm
// statistics; if there is only one, all devices share them.
void checkpoint_save(const char *path, const Checkpoint *checkpoint, const Module *net,
                     Device *const devices[], int replicas);

// What the file says about the training. die()s if it is no checkpoint. checkpoint_close() it.
Checkpoint checkpoint_open(const char *path);
void checkpoint_close(Checkpoint *checkpoint);
// die()s if the training cannot go on from there, because the settings or, in a second run, the
// length have changed, or because it would be over. An epoch had `batches` minibatches when the
// file was written. Now it has `batches_now`, and the training ends after `last` of them.
void checkpoint_check(const char *path, const Checkpoint *checkpoint, const char *settings,
                      const char *length, long batches, long batches_now, long last);
extern const char checkpoint_same_flags[]; // the hint for a checkpoint of other runs
// Gives all k devices what they had then. They must hold copies (place_on()).
void checkpoint_load(const char *path, Module *net, Device *const devices[], int k, int replicas);

#endif
