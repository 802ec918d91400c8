// towers.h: how TensorFlow 1 uses several GPUs. Source: the article "distributed-training-part-1",
// and TensorFlow's cifar10_multi_gpu_train.py.
#pragma once

#include "worker.h"

// A gradient and its variable, as compute_gradients() returns them.
typedef struct GradAndVar {
    Tensor *grad, *var;
} GradAndVar;

// For each variable v, final_grads[v].grad becomes the sum of its gradients over all towers. These
// gradients are in the memory of this device. tower_grads[t] is the list of tower t. Enqueued.
void combine_gradients(Device *device, GradAndVar *const tower_grads[], int num_towers,
                       int num_vars, GradAndVar final_grads[]);

// The gradients of a minibatch on the host. The variables go to k towers. Each tower computes the
// gradient of the *mean* loss of its rows. All gradients go to `fetched`, on the variables' device,
// and their sum is vars->grads. Waits.
void towers_gradients(Worker *vars, Worker towers[], Worker fetched[], int k, const Tensor *X,
                      const Tensor *y);
