// ddp.h: DistributedDataParallel. Each device is a rank, with its own replica of the network and
// its own data. Gradients are exchanged in buckets while backward goes on. Source: the text's
// section "nn.DistributedDataParallel"; Li et al., "PyTorch Distributed", VLDB 2020; PyTorch's
// reducer.cpp.
#ifndef DDP_H
#define DDP_H

#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "buckets.h"

// As torch.nn.parallel.DistributedDataParallel has them. All zero is what PyTorch (2.15) does by
// default, with gradient_as_bucket_view=True.
typedef struct DdpOptions {
    size_t bucket_bytes;       // 0: 25 MiB
    size_t first_bucket_bytes; // 0: bucket_bytes if that is given, else 1 MiB
    bool find_unused;  // find_unused_parameters: a parameter that a step does not use is no error
    bool keep_buffers; // broadcast_buffers=False: ranks keep their own running statistics
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
    Parameter **params; // the trained ones, num_params, in the order of state_dict
    int num_params;
    Buckets buckets;
    RankBucket **ranks; // [k][buckets.n]
    int started;        // buckets whose exchange has started in this step
    Arrival *arrivals;  // [k * num_params]
} Ddp;

// Places the network on the k devices and gives all ranks the parameters and buffers of rank 0,
// once. The network must be initialize()d, and outlive it. For ddp_free().
Ddp *ddp_new(Module *net, Device *const devices[], int k, DdpOptions options);
void ddp_free(Ddp *ddp);

// y_hat[i] = net(X[i]) on each rank. If there are buffers to broadcast, and the forward pass before
// this one was synchronised, rank 0's go to all first. Each device's step must have begun
// (begin_step()).
void ddp_forward(Ddp *ddp, Tensor *const X[], Tensor *y_hat[]);

// backward_all(), during which each bucket is summed over the ranks, on the communication queues,
// as soon as all ranks have all of its gradients, by the chosen allreduce. What comes next on the
// compute queues begins when all sums have arrived. If a parameter got no gradient, die()s and
// names it.
void ddp_backward(Ddp *ddp, Tensor *const losses[]);

// Each rank updates its replica, as sgd_step() does. batch_size: the rows of all ranks since the
// last update.
void ddp_update(Ddp *ddp, float lr, int batch_size);

// `with ddp.no_sync():` between ddp_no_sync(ddp, true) and ddp_no_sync(ddp, false), gradients are
// not exchanged, but add up. The next ddp_backward() exchanges the sum.
void ddp_no_sync(Ddp *ddp, bool on);

// A whole step. X_shards[i] and y_shards[i] are rank i's, on its device; batch_size the rows of all
// ranks. losses[i] is the summed loss of rank i.
void ddp_step(Ddp *ddp, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
              int batch_size, Tensor *losses[]);

// The formula: bytes that rank i sends and receives in a synchronised step, for the allreduce of
// each bucket, and for the buffers of rank 0.
Traffic ddp_bytes(const Ddp *ddp, int i);

#endif
