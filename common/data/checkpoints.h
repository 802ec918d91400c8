// checkpoints.h: a network in a file, and a training that goes on after it was stopped.
//
// To keep a network's parameters, call save_parameters(). To start from such a file, call
// load_parameters(). Names, shapes and types are as in PyTorch's state_dict.
//
// To keep a training, call checkpoint_save() when an epoch has ended. To go on, call
// checkpoint_load(). The training then continues bit for bit as if it had never been stopped. Do
// not save within an epoch, because the place in the epoch is not in the file. (Random numbers are
// functions of the seed and the epoch, so the file needs nothing for them.)
//
// A checkpoint is also a file of parameters for load_parameters() and for PyTorch. Everything else
// is in texts, and in batch norm's statistics of the other devices ("replica1.1.running_mean"), for
// which PyTorch needs strict=False.
#pragma once

#include "common/tensor/nn.h"

// Writes the copies of one device. Waits for it. If that fails, die()s and leaves an old file as it
// was.
void save_parameters(Module *net, Device *device, const char *path);
// The file's parameters, buffers and counts become the network's start, and it begins there
// (restart()). die()s if names or shapes are not the network's. The additional tensors of a
// checkpoint are ignored.
void load_parameters(Module *net, const char *path);

// Writes the file, whole or not at all: what the devices have after `epoch` epochs, the settings
// that must be the same to go on ("devices 2, batch size 512, .."), and a text of the caller's, the
// history. Each of the first `replicas` devices has its own batch norm statistics; if there is only
// one, all devices share them.
void checkpoint_save(const char *path, const Module *net, Device *const devices[], int replicas,
                     int epoch, const char *settings, const char *history);
// Gives all k devices, which must hold copies (place_on()), what they had when
// the file was written. Returns how many epochs are done, and the history, to free(). die()s if the
// file is no checkpoint, if the settings have changed, or if the training would already be over.
int checkpoint_load(const char *path, Module *net, Device *const devices[], int k, int replicas,
                    const char *settings, long most_epochs, char **history);
