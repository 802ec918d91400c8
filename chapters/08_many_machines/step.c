// step.c: see step.h.
#include "step.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// ## The same parameters everywhere

void broadcast_from_rank_0(RankNet *n) {
    dist_broadcast(NULL, flat_parameters(n->net, dist_device()).data, 0);
    broadcast_buffers(n);
}

void broadcast_buffers(RankNet *n) {
    Tensor *buffers = flat_parameters(n->net, dist_device()).buffers;
    if (numel(buffers) > 0) dist_broadcast(NULL, buffers, 0);
}

// ## DDP over processes

static void sum_over_ranks(Tensor *const grads[], int k) {
    CHECK(k == 1, "a rank has one device");
    dist_note_part("bucket"); // for the watch
    dist_all_reduce(NULL, grads[0]);
}

static void sum_hosts_first(Tensor *const grads[], int k) {
    CHECK(k == 1, "a rank has one device");
    dist_note_part("bucket");
    hierarchical_all_reduce(grads[0]);
}

RankNet *rank_net_new(Module *net, RankNetOptions options) {
    Device *device = dist_device();
    DdpOptions ddp = options.ddp;
    ddp.keep_buffers = true;                                        // broadcast_buffers() does it
    if (options.exchange == EXCHANGE_TENSORS) ddp.bucket_bytes = 1; // a bucket for each gradient
    ddp.sum = options.hosts_first ? sum_hosts_first : sum_over_ranks;
    RankNet *n = xcalloc(1, sizeof *n);
    *n = (RankNet){.net = net, .options = options};
    if (options.exchange == EXCHANGE_FUSION) {
        place_on(net, device);
        n->fusion = fusion_new(net, options.fusion);
        set_training(net, true);
    } else {
        n->ddp = ddp_new(net, &device, 1, ddp);
    }
    broadcast_from_rank_0(n);
    return n;
}

void rank_net_free(RankNet *n) {
    if (n->fusion) fusion_free(n->fusion);
    if (n->ddp) ddp_free(n->ddp);
    free(n);
}

// ## A step

static void step_with_fusion(RankNet *n, Tensor *X, Tensor *y, float lr, int rows_of_all,
                             Tensor **loss) {
    *loss = sum(cross_entropy(forward(n->net, X), y));
    fusion_begin(n->fusion);
    backward(*loss);
    fusion_exchange(n->fusion);
    sgd_step(n->net, dist_device(), lr, rows_of_all);
}

void rank_net_step(RankNet *n, Tensor *X, Tensor *y, float lr, int rows_of_all, Tensor **loss) {
    dist_note("step %ld", ++n->steps);
    broadcast_buffers(n);
    if (n->fusion)
        step_with_fusion(n, X, y, lr, rows_of_all, loss);
    else
        ddp_step(n->ddp, &X, &y, lr, rows_of_all, loss);
}

// ## Many parts on one device

double accumulate(Module *net, Device *device, const Tensor *X, const Tensor *y, int parts) {
    double total = 0;
    for (int i = 0; i < parts; i++) {
        Range rows = equal_range(X->shape[0], parts, i);
        begin_step(device); // forget the last part's activations
        Tensor *y_hat = forward(net, rows_on(X, rows, device));
        Tensor *loss = sum(cross_entropy(y_hat, rows_on(y, rows, device)));
        backward(loss); // adds to the existing gradients
        total += (double)item(loss);
    }
    return total;
}

uint32_t rank_net_checksum(const RankNet *n) {
    FlatParameters flat = flat_parameters(n->net, dist_device());
    size_t count;
    float *values = values_of_all((Tensor *[]){flat.data, flat.buffers}, 2, &count);
    uint32_t sum = (uint32_t)crc32(0, (const unsigned char *)values, (uInt)(count * sizeof(float)));
    free(values);
    return sum;
}
