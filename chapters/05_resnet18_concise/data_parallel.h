// data_parallel.h: training and evaluating any network on k devices. Book:
// "Concise Implementation for Multiple GPUs", sections "Initializing the Network" and "Training".
#pragma once

#include "common/data/fashion_mnist.h"
#include "common/tensor/nn.h"
#include "chapters/03_split_batch/split_batch.h"
#include "running_statistics.h"

// A network with a replica on each of k devices.
struct DataParallel {
    Module *net;
    int k;
    Device *devices[MAX_DEVICES];
    BatchNormMode bn; // which running statistics it uses for evaluation
};

// Gives each device its share of the cores and a copy of the parameters with the same initial
// values.
DataParallel data_parallel(Module *net, Device *const devices[], int k, BatchNormMode bn);

// Trains on one minibatch (X, y in host memory), like chapter 4's train_batch(). It splits the
// rows, runs forward and backward on all devices at the same time, sums the gradients and updates
// the parameters. losses[i] is the summed loss of shard i, on device i. All of this is only
// enqueued, so the caller has to wait.
void train_step(DataParallel *dp, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);

// Does the same with the given shards instead of equal ones (exercise 05-2). The gradients are the
// same, because each is a sum over rows, divided once by the number of rows in the whole minibatch.
void train_step_as(DataParallel *dp, const Range shards[], const Tensor *X, const Tensor *y,
                   float lr, Tensor *losses[]);

// Sums the gradients over the devices, and updates each replica.
void trainer_step(DataParallel *dp, float lr, int batch_size);

// Sums long vectors of equal length, one on each of k devices, with allreduce(), in buckets of 25
// MiB.
void allreduce_in_buckets(Tensor *const flats[], int k);
// The bytes that this sends between the devices for vectors of n floats, by chapter 2's formulas.
uint64_t bytes_in_buckets(size_t n, int k);
// The bytes sent between the devices in one train_step(), by the formulas. They include the
// gradients and, with BN_SYNC, batch norm's statistics.
uint64_t step_bytes(const DataParallel *dp);

// The fraction (0 to 1) of the images that the network classifies correctly. Each device gets its
// shard of each minibatch. Calls share_statistics() first. Stops and returns NaN if interrupted().
double evaluate_accuracy_gpus(DataParallel *dp, DataIter *data_iter);
