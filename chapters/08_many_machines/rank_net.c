// rank_net.c: Horovod's five steps, and what is behind each.
//
// ```python
// hvd.init()                                                   # 1  dist_init_process_group()
// config.gpu_options.visible_device_list = str(hvd.local_rank())  # 2  its devices
// opt = tf.train.AdagradOptimizer(0.01 * hvd.size())           # 3  rule_lr()
// opt = hvd.DistributedOptimizer(opt)                          # 5  rank_net_step()
// hooks = [hvd.BroadcastGlobalVariablesHook(0)]                # 4  rank_net_new()
// ```
//
// (In this order they stand in the example of Horovod's README.) The first two are in
// `process_group.c`, the third in `lr_rules.c`. Here are the others.
#include "rank_net.h"

#include "common/base/error.h"
#include "across_ranks.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char *const exchange_names[NUM_EXCHANGES] = {"tensors", "fusion", "buckets"};

ExchangeKind exchange_named(const char *name) {
    for (int e = 0; e < NUM_EXCHANGES; e++)
        if (strcmp(exchange_names[e], name) == 0) return (ExchangeKind)e;
    die("there are tensors, fusion and buckets", "there is no exchange '%s'", name);
}

// ## The start: all ranks get what rank 0 has
//
// Each process has made parameters of its own. With one seed they are the same, but nobody should
// rely on it: another library, a file that only rank 0 has, a forgotten seed, and the ranks would
// train different networks and add up gradients that have nothing to do with each other.

static void broadcast_from_rank_0(RankNet *n, bool parameters) {
    Tensor *data[MAX_LOCAL_DEVICES], *buffers[MAX_LOCAL_DEVICES];
    for (int i = 0; i < dist_local_devices(); i++) {
        FlatParameters flat = flat_parameters(n->net, dist_device(i));
        data[i] = flat.data;
        buffers[i] = flat.buffers;
    }
    if (parameters) dist_broadcast(n->options.group, data, 0);
    if (numel(buffers[0]) > 0) dist_broadcast(n->options.group, buffers, 0);
}

static DdpOptions ddp_options(const RankNetOptions *o) {
    DdpOptions ddp = o->ddp;
    ddp.keep_buffers = true;                                   // broadcast_from_rank_0() does it
    if (o->exchange == EXCHANGE_TENSORS) ddp.bucket_bytes = 1; // so each has one of its own
    return ddp;
}

RankNet *rank_net_new(Module *net, RankNetOptions options) {
    RankNet *n = xcalloc(1, sizeof *n);
    *n = (RankNet){.net = net, .options = options};
    if (options.exchange == EXCHANGE_FUSION) {
        for (int i = 0; i < dist_local_devices(); i++) place_on(net, dist_device(i));
        n->fusion = fusion_new(net, options.fusion);
        set_training(net, true);
    } else {
        n->ddp = ddp_new(net, dist_devices(), dist_local_devices(), ddp_options(&options));
    }
    broadcast_from_rank_0(n, true);
    return n;
}

void rank_net_broadcast(RankNet *n) { broadcast_from_rank_0(n, true); }

void rank_net_share_buffers(RankNet *n) {
    if (buffer_bytes(n->net) > 0) broadcast_from_rank_0(n, false);
}

void rank_net_free(RankNet *n) {
    if (n->fusion) fusion_free(n->fusion);
    if (n->ddp) ddp_free(n->ddp);
    free(n);
}

// ## A step
//
// Chapter 6's, with sums that go over all ranks: chapter 6's DDP calls allreduce(), and here that
// does not end at the border of the process (`across_ranks.c`).

static void step_with_fusion(RankNet *n, Tensor *const X[], Tensor *const y[], float lr,
                             int rows_of_all, Tensor *losses[]) {
    Tensor *y_hat[MAX_LOCAL_DEVICES];
    int devices = dist_local_devices();
    forward_all(n->net, X, devices, y_hat);
    for (int i = 0; i < devices; i++) losses[i] = sum(cross_entropy(y_hat[i], y[i]));
    fusion_begin(n->fusion);
    backward_all(losses, devices);
    fusion_exchange(n->fusion);
    for (int i = 0; i < devices; i++) sgd_step(n->net, dist_device(i), lr, rows_of_all);
}

void rank_net_step(RankNet *n, Tensor *const X[], Tensor *const y[], float lr, int rows_of_all,
                   Tensor *losses[]) {
    rank_net_share_buffers(n);
    sum_across_ranks(n->options.group, n->options.hosts_first, ++n->steps);
    if (n->fusion)
        step_with_fusion(n, X, y, lr, rows_of_all, losses);
    else
        ddp_step(n->ddp, X, y, lr, rows_of_all, losses);
}

uint32_t rank_net_checksum(const RankNet *n) {
    FlatParameters flat = flat_parameters(n->net, dist_device(0));
    Tensor *const all[] = {flat.data, flat.buffers};
    size_t count;
    float *values = values_of_all(all, 2, &count);
    uint32_t sum = (uint32_t)crc32(0, (const unsigned char *)values, (uInt)(count * sizeof(float)));
    free(values);
    return sum;
}
