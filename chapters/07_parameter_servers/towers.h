// towers.h: how TensorFlow 1 uses several GPUs: variables on the CPU, a copy of the model on each
// device, and one place where gradients are combined. Source: the article
// "distributed-training-part-1", and TensorFlow's cifar10_multi_gpu_train.py.
#ifndef TOWERS_H
#define TOWERS_H

#include "common/tensor/adam.h"
#include "worker.h"

// A gradient and its variable, as compute_gradients() returns them.
typedef struct GradAndVar {
    Tensor *grad, *var;
} GradAndVar;

// The article's combine_gradients(tower_grads): for each variable, the sum of its gradients over
// all towers. tower_grads[t] is the list of tower t. `device`, which has all grads in its memory,
// computes the sums and puts them into final_grads[v].grad. Enqueued.
void combine_gradients(Device *device, GradAndVar *const tower_grads[], int num_towers,
                       int num_vars, GradAndVar final_grads[]);

typedef enum { TOWERS_SUM, TOWERS_MEAN } Combine; // the article; TensorFlow's example

typedef struct Towers {
    int k;
    Device *cpu;                          // computes the update, on memory of the host
    Worker *towers;                       // one on each of k devices
    Tensor *vars[LENET_PARAMS];           // on the host
    GradAndVar (*grads)[LENET_PARAMS];    // [k]: what came from tower t, on the host
    GradAndVar final_grads[LENET_PARAMS]; // the sums
    Combine combine;
    Adam *adam; // NULL: plain gradient descent
} Towers;

// On these k devices, with the parameters of lenet_init(seed). For towers_free().
Towers *towers_new(Device *const devices[], int k, uint64_t seed, Combine combine, bool adam);
void towers_free(Towers *towers);

// One step on a minibatch on the host: split, variables to all towers, the gradient of the mean
// loss of each tower's rows, back to the CPU, combined, applied. Waits.
void towers_step(Towers *towers, const Tensor *X, const Tensor *y, float lr);

#endif
