// data_parallel.h: training and evaluating a network on k devices, whatever the network is. Book:
// "Concise Implementation for Multiple GPUs", sections "Initializing the Network" and "Training".
#ifndef DATA_PARALLEL_H
#define DATA_PARALLEL_H

#include "common/data/fashion_mnist.h"
#include "common/tensor/nn.h"
#include "chapters/03_split_batch/split_batch.h"

// What k devices do about the running statistics of batch norm, by which the network is evaluated:
// see data_parallel.c, which says what to choose, and has a table of what each is good for.
typedef enum {
    BN_LOCAL,    // each keeps those of its own shards, and evaluates with them (the book's MXNet)
    BN_RANK0,    // all evaluate with those of device 0 (torch.nn.DataParallel, the book's PyTorch)
    BN_AVERAGED, // all evaluate with the mean of those of all devices
    BN_SYNC,     // mean and variance are those of the whole minibatch, in training too: see
                 // sync_batch_norm(). k devices compute what one does.
} BatchNormMode;

BatchNormMode batch_norm_mode(const char *name); // "local", "rank0", "averaged", "sync"

// A network with its replicas on k devices, as torch.nn.DataParallel or gluon's list of contexts.
typedef struct DataParallel {
    Module *net;
    int k;
    Device *devices[MAX_DEVICES];
    BatchNormMode bn;
} DataParallel;

// Gives each device a copy of the parameters, all from the same start, and its part of the cores.
DataParallel data_parallel(Module *net, Device *const devices[], int k, BatchNormMode bn);

// Trains on one minibatch (X, y in host memory), as chapter 4's train_batch(): split, forward and
// backward on all devices side by side, sum the gradients, step. losses[i] is the summed loss of
// shard i, on device i. All is enqueued; the caller waits.
void train_step(DataParallel *dp, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);

// The same, with other shards than equal ones (exercise 05-2). The gradients come out as they would
// with equal shards: each is a sum over rows, divided once, by the rows of the whole minibatch.
void train_step_as(DataParallel *dp, const Range shards[], const Tensor *X, const Tensor *y,
                   float lr, Tensor *losses[]);

// Gradients are summed over the devices (allreduce) and each device updates its copy.
void trainer_step(DataParallel *dp, float lr, int batch_size);

// The part (0..1) of the observations that the network classifies correctly, computed on all
// devices: each gets its shard of each minibatch. Begins with share_statistics(). Once
// interrupted() it stops, and returns NaN.
double evaluate_accuracy_gpus(DataParallel *dp, DataIter *data_iter);

// Gives the replicas the running statistics that they evaluate with, as dp->bn says. How often that
// is done does not matter to BN_RANK0 and BN_AVERAGED: training does not read running statistics,
// and a mean of moving averages is the moving average of the means.
void share_statistics(DataParallel *dp);

// Bytes that cross between the devices, by the formulas: in one train_step() the gradients
// (2 (k-1) N, see chapter 2) and, with BN_SYNC, batch norm's figures; in one share_statistics().
uint64_t step_bytes(const DataParallel *dp);
uint64_t statistics_bytes(const DataParallel *dp);

#endif
