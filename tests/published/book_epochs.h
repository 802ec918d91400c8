// book_epochs.h: how long would the book's epochs take on a machine? Chapters 4 and 5 themselves
// train there, for a few steps, on devices that compute nothing.
#ifndef BOOK_EPOCHS_H
#define BOOK_EPOCHS_H

#include "common/model/machine.h"
#include "common/tensor/tensor.h"

// Trains on the minibatch (X, y) a few times. Modelled seconds of the last one: in the first,
// memory is new.
typedef double BookTraining(Device *const devices[], int k, Tensor *X, Tensor *y);
BookTraining train_lenet, train_resnet18;

// Modelled seconds of an epoch of Fashion-MNIST on k devices, with the launch times of a framework
// and no CUDA graph. The images are in the host's memory, ready. Closes all devices, and stops the
// modelled clock when it is done.
double book_epoch_seconds(const Machine *machine, BookTraining *training, int k, int batch_size);

#endif
