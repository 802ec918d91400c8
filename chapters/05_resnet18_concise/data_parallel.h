// data_parallel.h: training and evaluating a network on k devices, whatever the network is. Book:
// "Concise Implementation for Multiple GPUs", sections "Initializing the Network" and "Training".
#ifndef DATA_PARALLEL_H
#define DATA_PARALLEL_H

#include "common/data/fashion_mnist.h"
#include "common/tensor/nn.h"
#include "chapters/03_split_batch/split_batch.h"
#include "running_statistics.h"

// A network with a replica on each of k devices.
struct DataParallel {
    Module *net;
    int k;
    Device *devices[MAX_DEVICES];
    BatchNormMode bn; // whose running statistics it evaluates with
};

// Gives each device a copy of the parameters, with the same initial values, and its part of the
// cores.
DataParallel data_parallel(Module *net, Device *const devices[], int k, BatchNormMode bn);

// Trains on one minibatch (X, y in host memory), as chapter 4's train_batch(): split, forward and
// backward on all devices side by side, sum the gradients, update. losses[i] is the summed loss of
// shard i, on device i. All of it is enqueued; the caller waits.
void train_step(DataParallel *dp, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]);

// The same with these shards instead of equal ones (exercise 05-2). The gradients are the same,
// because each is a sum over rows, divided once by the rows of the whole minibatch.
void train_step_as(DataParallel *dp, const Range shards[], const Tensor *X, const Tensor *y,
                   float lr, Tensor *losses[]);

// Sums the gradients over the devices, and updates each replica.
void trainer_step(DataParallel *dp, float lr, int batch_size);

// allreduce() of long vectors of the same length, one on each of k devices, in buckets of 25 MiB.
void allreduce_in_buckets(Tensor *const flats[], int k);
// Bytes that this moves between the devices for vectors of n floats, by chapter 2's formulas.
uint64_t bytes_in_buckets(size_t n, int k);
// Bytes that cross between the devices in one train_step(), by the formulas: the gradients, and
// with BN_SYNC also batch norm's statistics.
uint64_t step_bytes(const DataParallel *dp);

// The fraction (0 to 1) of the images that the network classifies correctly. Each device gets its
// shard of each minibatch. Begins with share_statistics(). Once interrupted(), stops and returns
// NaN.
double evaluate_accuracy_gpus(DataParallel *dp, DataIter *data_iter);

#endif
