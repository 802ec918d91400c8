// running_statistics.h: batch normalization on k devices. Which mean and variance does a network
// use to normalize its test images, if each device has seen different images in training?
#pragma once

#include <stdint.h>

// What --bn chooses. The chapter's section "Batch norm" has a table of the four.
typedef enum {
    BN_LOCAL,    // each device evaluates with the statistics of its own shards (d2l's MXNet)
    BN_RANK0,    // all evaluate with device 0's statistics (torch.nn.DataParallel, DDP)
    BN_AVERAGED, // all evaluate with the mean over the devices
    BN_SYNC,     // sync_batch_norm(): in training, the mean and variance are taken over all shards,
                 // too, so k devices compute what one does
} BatchNormMode;

// "local", "rank0", "averaged" or "sync"; die()s if the name is none of them.
BatchNormMode batch_norm_mode(const char *name);

typedef struct DataParallel DataParallel;

// Gives the replicas the running statistics that they use for evaluation, as dp->bn says. Training
// does not read running statistics, and the mean of moving averages is the moving average of the
// means. So with BN_RANK0 and BN_AVERAGED it does not matter how often this is done.
void share_statistics(DataParallel *dp);

// By the formula: the bytes that BN_SYNC's statistics send between the devices in a training step.
uint64_t synchronising_bytes(const DataParallel *dp);
