// evaluate.h: accuracy, the part (0..1) of a data set that a network classifies correctly.
//
// For a network with its parameters in an array, on one device, call evaluate_accuracy_gpu(). For
// any other, write the loop over the minibatches, and count in it:
//
//     Accuracy a = accuracy_begin(devices, k);
//     for each minibatch: begin_step() on each device, y_hat[i] = ..; accuracy_count(&a, y_hat, y);
//     double accuracy = accuracy_end(&a);
#pragma once

#include "fashion_mnist.h"

// A network as a function of its input and its parameters, both on one device.
typedef Tensor *Net(Tensor *X, Tensor *const params[]);

// Book: d2l's evaluate_accuracy_gpu.
double evaluate_accuracy_gpu(Net *net, Tensor *const params[], DataIter *data_iter, Device *device);

typedef struct Accuracy {
    int k;
    Tensor *correct[MAX_DEVICES]; // (1) on each device; counts below 2^24 are exact in float32
    double num_correct;           // of all devices, known at the end
    long observations;            // rows of all devices so far
} Accuracy;

// Nothing is recorded for backward() until accuracy_end().
Accuracy accuracy_begin(Device *const devices[], int k);
// y_hat[i] (n,classes) and y[i] (n) are on device i, and n may differ between devices. Enqueued.
void accuracy_count(Accuracy *a, Tensor *const y_hat[], Tensor *const y[]);
// Waits once, for all devices.
double accuracy_end(Accuracy *a);

// What to print after an epoch's mean loss: ": diverged .." if it is far above guessing's, else "".
const char *divergence(double train_loss);
