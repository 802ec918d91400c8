// step.h: a network that all ranks train together, each with different rows.
#pragma once

#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "fusion.h"
#include "ranks.h"

// How gradients travel.
typedef enum {
    EXCHANGE_TENSORS, // each as soon as it is final: a message for each
    EXCHANGE_FUSION,  // Horovod's tensor fusion (fusion.h)
    EXCHANGE_BUCKETS, // DDP's buckets (chapter 6)
    NUM_EXCHANGES
} ExchangeKind;

typedef struct RankNetOptions {
    ExchangeKind exchange;
    FusionOptions fusion; // of EXCHANGE_FUSION,
    DdpOptions ddp;       // of EXCHANGE_BUCKETS
    bool hosts_first;     // sums go inside hosts first; not with EXCHANGE_FUSION
} RankNetOptions;

typedef struct RankNet {
    Module *net;
    RankNetOptions options;
    Ddp *ddp;       // NULL with EXCHANGE_FUSION
    Fusion *fusion; // NULL without
    long steps;     // made
} RankNet;

// By all ranks. Places the network on this rank's device, with the parameters and buffers of rank
// 0. It must be initialize()d and outlive this. For rank_net_free().
RankNet *rank_net_new(Module *net, RankNetOptions options);
void rank_net_free(RankNet *n);

// All ranks get what rank 0 has: its parameters and buffers, or its buffers alone. (Buffers are
// batch norm's running statistics. Between steps, each rank's buffers have seen only its own rows,
// so share them before the network is evaluated, saved or compared.)
void broadcast_from_rank_0(RankNet *n);
void broadcast_buffers(RankNet *n);

// One step. X (n,1,28,28) and y (n) are this rank's rows, on its device, whose step has begun
// (begin_step()); rows_of_all is the number of rows of all ranks. *loss (1) is summed over this
// rank's rows. Enqueued; with EXCHANGE_FUSION the host waits for the exchange.
void rank_net_step(RankNet *n, Tensor *X, Tensor *y, float lr, int rows_of_all, Tensor **loss);

// Gradient accumulation, on one device. Forward and backward of X (n,...) and y (n), on the host,
// in so many parts: part i has the rows of shard i of split_batch(). Afterwards the gradients are
// the sums over all rows, for sgd_step(net, device, lr, n). Returns the loss, summed over the rows.
// The network must be placed on the device. Waits.
double accumulate(Module *net, Device *device, const Tensor *X, const Tensor *y, int parts);

// hierarchical.c: Horovod's hierarchical allreduce (HOROVOD_HIERARCHICAL_ALLREDUCE). t, on this
// rank's device, becomes the sum of all ranks' t: the same bits on all ranks, in another order of
// additions than the other sums. By all ranks, between begin and end.
void hierarchical_all_reduce(Tensor *t);
void hierarchical_begin(void); // CHECKs that all hosts have the same number of ranks
void hierarchical_end(void);

// A checksum of all parameters and buffers of this rank. Waits.
uint32_t rank_net_checksum(const RankNet *n);
