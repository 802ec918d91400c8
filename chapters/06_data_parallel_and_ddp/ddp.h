// ddp.h: DistributedDataParallel. Each device is a rank, with a replica of the network and data of
// its own; gradients are exchanged in buckets while backward goes on. Source: the text's section
// "nn.DistributedDataParallel"; Li et al., "PyTorch Distributed", VLDB 2020; PyTorch's reducer.cpp.
#ifndef DDP_H
#define DDP_H

#include "common/tensor/nn.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "buckets.h"

// As torch.nn.parallel.DistributedDataParallel has them. What is left out is PyTorch's default
// (2.15), but for `copies` and `rebuild`: there a gradient is copied into its bucket if nothing is
// said, and buckets are rebuilt, with views, too, unless find_unused_parameters is set.
typedef struct DdpOptions {
    size_t bucket_bytes;       // 0: 25 MiB
    size_t first_bucket_bytes; // 0: bucket_bytes if that is given, else 1 MiB
    bool copies;  // gradients are copied into the bucket, and back: gradient_as_bucket_view=False
    bool rebuild; // after the first step, buckets are filled in the order in which the gradients
                  // came; else from the last parameter to the first. Ours needs `copies` for it
    bool find_unused;  // find_unused_parameters: a parameter that a step does not use is no error
    bool keep_buffers; // broadcast_buffers=False: no rank gets rank 0's running statistics
} DdpOptions;

// One gradient of one rank, on its way into a bucket.
typedef struct Arrival {
    struct Ddp *ddp;
    int rank, param;
    bool final; // in this step
} Arrival;

// A bucket of one rank.
typedef struct RankBucket {
    Tensor *grads; // all of the bucket's, one behind the other
    int missing;   // how many are not final yet in this step; 0 between steps
    Event ready;   // on the compute queue: when the last one became final
} RankBucket;

typedef struct Ddp {
    Module *net;
    int k;
    Device **devices;
    DdpOptions options;
    bool sync;          // false: no_sync, gradients stay where they are and add up
    bool was_sync;      // in the forward before
    Parameter **params; // the trained ones, num_params, in the order of state_dict
    int num_params;
    Buckets buckets;
    RankBucket **ranks; // [k][buckets.n]
    int **turn;        // [k]: the order in which the rank starts its buckets, at first 0, 1, 2, ...
    int started;       // buckets, in this step
    Arrival *arrivals; // [k * num_params]
    int *came, num_came; // the parameters of rank 0, in the order in which their gradients came
} Ddp;

// Places the network on the k devices and gives all ranks the parameters and buffers of rank 0,
// once. The network must be initialize()d, and outlive it. For ddp_free().
Ddp *ddp_new(Module *net, Device *const devices[], int k, DdpOptions options);
void ddp_free(Ddp *ddp);

// y_hat[i] = net(X[i]) on each rank. If there are buffers to broadcast, and the forward before this
// one was synchronised, rank 0's go to all first. Each device's step must have begun
// (begin_step()).
void ddp_forward(Ddp *ddp, Tensor *const X[], Tensor *y_hat[]);

// backward_all(), during which each bucket is summed over the ranks, on the communication queues,
// as soon as all ranks have all of its gradients, by the chosen allreduce. What comes next on the
// compute queues begins when all sums are there. die()s, naming it, if a parameter got no gradient.
void ddp_backward(Ddp *ddp, Tensor *const losses[]);

// Each rank updates its replica: as sgd_step(). batch_size: rows since the last update, of all
// ranks.
void ddp_update(Ddp *ddp, float lr, int batch_size);

// `with ddp.no_sync():` between the two calls gradients are not exchanged, but add up; the next
// ddp_backward() after it exchanges the sum.
void ddp_no_sync(Ddp *ddp, bool on);

// A whole step: X_shards[i] and y_shards[i] are rank i's, on its device; batch_size the rows of all
// ranks. losses[i] is the summed loss of rank i.
void ddp_step(Ddp *ddp, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
              int batch_size, Tensor *losses[]);

// Bytes that rank i sends and receives in one synchronised step, by the formula: the allreduce of
// each bucket, and the buffers of rank 0.
Traffic ddp_gradient_bytes(const Ddp *ddp, int i);
Traffic ddp_buffer_bytes(const Ddp *ddp, int i);

#endif
