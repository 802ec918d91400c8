// running_statistics.h: batch normalization on k devices. By which mean and variance does a network
// normalize its test images, if each device has seen other images in training?
#ifndef RUNNING_STATISTICS_H
#define RUNNING_STATISTICS_H

#include <stdint.h>

// What --bn chooses. The chapter's section "Batch norm" has a table of the four.
typedef enum {
    BN_LOCAL,    // each device evaluates with the statistics of its own shards (d2l's MXNet)
    BN_RANK0,    // all evaluate with those of device 0 (torch.nn.DataParallel, DDP)
    BN_AVERAGED, // all evaluate with the mean over the devices
    BN_SYNC,     // sync_batch_norm(): in training, too, mean and variance are over all shards, so k
                 // devices compute what one does
} BatchNormMode;

// "local", "rank0", "averaged" or "sync"; die()s if the name is none of them.
BatchNormMode batch_norm_mode(const char *name);

typedef struct DataParallel DataParallel;

// Gives the replicas the running statistics that they evaluate with, as dp->bn says. Training does
// not read running statistics, and the mean of moving averages is the moving average of the means.
// So with BN_RANK0 and BN_AVERAGED it does not matter how often this is done.
void share_statistics(DataParallel *dp);

// Bytes that cross between the devices, by the formulas: in one share_statistics(), and, with
// BN_SYNC, for the statistics of one training step.
uint64_t statistics_bytes(const DataParallel *dp);
uint64_t synchronising_bytes(const DataParallel *dp);

#endif
