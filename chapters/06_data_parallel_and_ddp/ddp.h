// ddp.h: DistributedDataParallel. Each device is a rank, with its own replica of the network and
// its own data. Gradients are exchanged in buckets during the backward pass. Source: Li et al.,
// "PyTorch Distributed", VLDB 2020; PyTorch's reducer.cpp.
#pragma once

#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "buckets.h"

// The options of torch.nn.parallel.DistributedDataParallel. If all are zero, they are PyTorch's
// (2.15) defaults, with gradient_as_bucket_view=True.
typedef struct DdpOptions {
    size_t bucket_bytes;       // 0: 25 MiB
    size_t first_bucket_bytes; // 0: bucket_bytes if that is given, else 1 MiB
    bool find_unused;          // find_unused_parameters: a step may leave parameters unused
    bool keep_buffers;         // broadcast_buffers=False: ranks keep their own running statistics
    void (*sum)(Tensor *const grads[], int k); // how ranks sum a bucket; NULL: allreduce()
} DdpOptions;

// One gradient of one rank, on its way into a bucket.
typedef struct Arrival {
    struct Ddp *ddp;
    int rank, param;
    bool final; // in this step
} Arrival;

// A bucket of one rank.
typedef struct RankBucket {
    Tensor *grads; // all of the bucket's gradients, one after the other
    int missing;   // how many are not final yet in this step
    Event ready;   // on the compute queue: when the last one became final
} RankBucket;

typedef struct Ddp {
    Module *net;
    int k;
    Device **devices;
    DdpOptions options;
    bool sync;          // false: no_sync, gradients stay on their rank and add up
    bool was_sync;      // in the forward pass before
    Parameter **params; // the num_params trained ones, in the order of state_dict
    int num_params;
    Buckets buckets;
    RankBucket **ranks; // [k][buckets.n]
    int started;        // buckets whose exchange has started in this step
    Arrival *arrivals;  // [k * num_params]
} Ddp;

// Places the network on the k devices and copies rank 0's parameters and buffers to all ranks,
// once. The network must be initialize()d and must outlive the Ddp. For ddp_free().
Ddp *ddp_new(Module *net, Device *const devices[], int k, DdpOptions options);
void ddp_free(Ddp *ddp);

// y_hat[i] = net(X[i]) on each rank. If there are buffers to broadcast, and the previous forward
// pass was synchronised, rank 0's buffers are first sent to all ranks. Each device's step must have
// begun (begin_step()).
void ddp_forward(Ddp *ddp, Tensor *const X[], Tensor *y_hat[]);

// Runs backward_all(). As soon as all ranks have all gradients of a bucket, options.sum sums it
// over the ranks on the communication queues. Later work on the compute queues begins when all sums
// have arrived. If a parameter got no gradient, die()s and names it.
void ddp_backward(Ddp *ddp, Tensor *const losses[]);

// Each rank updates its replica, as sgd_step() does. batch_size: the number of rows on all ranks
// since the last update.
void ddp_update(Ddp *ddp, float lr, int batch_size);

// PyTorch's `with ddp.no_sync():`. Between ddp_no_sync(ddp, true) and ddp_no_sync(ddp, false),
// gradients are not exchanged but add up. The next ddp_backward() exchanges the sum.
void ddp_no_sync(Ddp *ddp, bool on);

// A whole step. X_shards[i] and y_shards[i] belong to rank i and are on its device. batch_size is
// the number of rows on all ranks. losses[i] is the summed loss of rank i.
void ddp_step(Ddp *ddp, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
              int batch_size, Tensor *losses[]);

// The formula for the bytes that rank i sends and receives in a synchronised step, for the
// allreduce of each bucket and for rank 0's buffers.
Traffic ddp_bytes(const Ddp *ddp, int i);
