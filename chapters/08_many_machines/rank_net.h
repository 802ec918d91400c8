// rank_net.h: a network that all ranks train together: Horovod's five steps.
#ifndef RANK_NET_H
#define RANK_NET_H

#include "common/comm/process_group.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "fusion.h"

// How gradients travel.
typedef enum {
    EXCHANGE_TENSORS, // each as soon as it is final: a message for each
    EXCHANGE_FUSION,  // Horovod's tensor fusion (fusion.h)
    EXCHANGE_BUCKETS, // DDP's buckets (chapter 6)
    NUM_EXCHANGES
} ExchangeKind;
extern const char *const exchange_names[NUM_EXCHANGES]; // "tensors", "fusion", "buckets"
ExchangeKind exchange_named(const char *name);

typedef struct RankNetOptions {
    ExchangeKind exchange;
    FusionOptions fusion; // of EXCHANGE_FUSION,
    DdpOptions ddp;       // of EXCHANGE_BUCKETS
    bool hosts_first;     // hierarchical allreduce; not with EXCHANGE_FUSION
    ProcessGroup *group;  // the ranks that train; NULL: all. (EXCHANGE_FUSION: all)
} RankNetOptions;

typedef struct RankNet {
    Module *net;
    RankNetOptions options;
    Ddp *ddp;       // of this process's own devices; NULL with EXCHANGE_FUSION
    Fusion *fusion; // NULL without
    long steps;     // made
} RankNet;

// Places the network on the devices of this process and gives all ranks the parameters and buffers
// of rank 0. The network must be initialize()d (by rank 0 at least), and outlive it. For
// rank_net_free().
RankNet *rank_net_new(Module *net, RankNetOptions options);
void rank_net_free(RankNet *n);

// All ranks get the parameters and buffers that rank 0 has now.
void rank_net_broadcast(RankNet *n);

// All get rank 0's buffers. Between two steps each rank has its own, which have seen its own rows:
// before the network is evaluated, saved or compared, there must be one.
void rank_net_share_buffers(RankNet *n);

// One step: X[i] and y[i] are the rows of device i of this process, rows_of_all the number of rows
// of all devices of all ranks; losses[i] is the summed loss of device i. Each device's step must
// have begun (begin_step()). Enqueued; with EXCHANGE_FUSION the host waits for the exchange.
void rank_net_step(RankNet *n, Tensor *const X[], Tensor *const y[], float lr, int rows_of_all,
                   Tensor *losses[]);

// Of all parameters and buffers of this rank's first device: ranks with equal ones have equal
// numbers. Waits.
uint32_t rank_net_checksum(const RankNet *n);

#endif
