// towers.h: the way of TensorFlow 1: variables on the CPU, a copy of the model on each device, and
// one place where gradients are combined. Source: the text's sections 1 to 3 of "Making full use of
// a machine with several GPUs"; TensorFlow's cifar10_multi_gpu_train.py.
#ifndef TOWERS_H
#define TOWERS_H

#include "common/tensor/adam.h"
#include "worker.h"

// A gradient and the variable that it is of, as compute_gradients() returns them.
typedef struct GradAndVar {
    Tensor *grad, *var;
} GradAndVar;

// The text's combine_gradients(tower_grads): for each variable, the sum of its gradients over all
// towers. tower_grads[t] is the list of tower t. `device` computes it and all grads are in its
// memory; sums are put into final_grads[v].grad. (In this chapter that is a CPU device, and the
// host's memory.) Enqueued.
void combine_gradients(Device *device, GradAndVar *const tower_grads[], int num_towers,
                       int num_vars, GradAndVar final_grads[]);

typedef enum { TOWERS_SUM, TOWERS_MEAN } Combine; // the text's; that of TensorFlow's example

typedef struct Towers {
    int k;
    Device *cpu;                    // computes the update, on memory of the host
    Worker *towers;                 // one on each of k devices
    Tensor *vars[LENET_PARAMS];     // the variables, with gradients, on the host
    Tensor *(*grads)[LENET_PARAMS]; // [k]: what came from tower t, on the host
    Combine combine;
    Adam *adam; // NULL: plain gradient descent
} Towers;

// On devices 0..k-1, with the parameters of lenet_init(seed). For towers_free().
Towers *towers_new(Device *const devices[], int k, uint64_t seed, Combine combine, bool adam);
void towers_free(Towers *towers);

// One step on a minibatch on the host: split, variables to all towers, the gradient of the mean
// loss of each tower's rows, back to the CPU, combined, applied. Waits.
void towers_step(Towers *towers, const Tensor *X, const Tensor *y, float lr);

// A tower's part of that: adds the gradient of the mean loss of its rows, X and y on its device, to
// tower->grads. Enqueued.
void tower_gradients(Worker *tower, Tensor *X, Tensor *y);

// Bytes to and from the host in a step, but for the minibatch: 2 k P.
size_t towers_bytes_per_step(int k);

#endif
