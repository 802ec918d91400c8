// evaluate.h: accuracy of a network on a data set. Book: d2l's evaluate_accuracy_gpu.
#ifndef EVALUATE_H
#define EVALUATE_H

#include "fashion_mnist.h"

// A network as a function of its input and its parameters, both on one device.
typedef Tensor *Net(Tensor *X, Tensor *const params[]);

// The part (0..1) of the observations of data_iter that the network, on this device, classifies
// correctly.
double evaluate_accuracy_gpu(Net *net, Tensor *const params[], DataIter *data_iter, Device *device);

#endif
