// ddp.c: DistributedDataParallel. Here all ranks are in one program. In chapter 8 they are
// processes.
#include "ddp.h"

#include "common/base/error.h"
#include "common/device/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ## A replica and buckets on each rank
//
// The gradients of a network are slices of one long vector, in the order of its parameters (nn.h).
// A bucket holds the gradients of neighbouring parameters, so it is also a slice of that vector.

static void make_buckets(Ddp *ddp) {
    Parameters all = parameters_of(ddp->net);
    int n = 0, *backwards = xmalloc(sizeof *backwards * (size_t)all.n);
    size_t *sizes = xmalloc(sizeof *sizes * (size_t)all.n), bytes = ddp->options.bucket_bytes;
    size_t first_bytes = ddp->options.first_bucket_bytes;
    ddp->params = xmalloc(sizeof(Parameter *) * (size_t)all.n);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) ddp->params[n++] = all.list[p];
    for (int p = 0; p < n; p++) {
        backwards[p] = n - 1 - p;
        sizes[p] = numel(ddp->params[p]->start);
    }
    if (first_bytes == 0) first_bytes = bytes ? bytes : FIRST_BUCKET_BYTES;
    ddp->buckets = buckets_of(sizes, backwards, n, first_bytes, bytes ? bytes : BUCKET_BYTES);
    ddp->num_params = n;
    free(backwards);
    free(sizes);
}

// The parameter whose gradient is at the beginning of bucket b.
static const Parameter *begin_of_bucket(const Ddp *ddp, int b) {
    const Buckets *buckets = &ddp->buckets;
    return ddp->params[buckets->order[buckets->first[b + 1] - 1]];
}

static void make_rank(Ddp *ddp, int i) {
    Tensor *all = flat_parameters(ddp->net, ddp->devices[i]).grad;
    ddp->ranks[i] = xcalloc((size_t)ddp->buckets.n, sizeof **ddp->ranks);
    for (int b = 0; b < ddp->buckets.n; b++) {
        int floats = (int)ddp->buckets.floats[b];
        ddp->ranks[i][b].grads = tensor_slice(all, begin_of_bucket(ddp, b)->first, 1, &floats);
    }
}

// Copies rank 0's parameters and buffers to all ranks. Parameters are copied only once, before the
// first step. After that, all ranks make the same updates with the same sums.
static void broadcast(Ddp *ddp, bool parameters) {
    FlatParameters from = flat_parameters(ddp->net, ddp->devices[0]);
    for (int i = 1; i < ddp->k; i++) {
        FlatParameters to = flat_parameters(ddp->net, ddp->devices[i]);
        if (parameters) tensor_copy(to.data, from.data);
        tensor_copy(to.buffers, from.buffers);
    }
}

static void hook_all(Ddp *ddp, bool on);

Ddp *ddp_new(Module *net, Device *const devices[], int k, DdpOptions options) {
    Ddp *ddp = xcalloc(1, sizeof *ddp);
    *ddp = (Ddp){.net = net, .k = k, .options = options, .sync = true, .was_sync = true};
    if (!options.sum) ddp->options.sum = allreduce;
    ddp->devices = xmalloc(sizeof *devices * (size_t)k);
    memcpy(ddp->devices, devices, sizeof *devices * (size_t)k);
    ddp->ranks = xcalloc((size_t)k, sizeof *ddp->ranks);
    share_cores(devices, k);
    make_buckets(ddp);
    ddp->arrivals = xcalloc((size_t)(k * ddp->num_params), sizeof *ddp->arrivals);
    for (int i = 0; i < k; i++) {
        place_on(net, devices[i]);
        make_rank(ddp, i);
    }
    broadcast(ddp, true);
    hook_all(ddp, true);
    set_training(net, true);
    return ddp;
}

void ddp_free(Ddp *ddp) {
    synchronize_all();
    hook_all(ddp, false);
    for (int i = 0; i < ddp->k; i++) {
        for (int b = 0; b < ddp->buckets.n; b++) tensor_free(ddp->ranks[i][b].grads);
        free(ddp->ranks[i]);
    }
    buckets_free(&ddp->buckets);
    free(ddp->ranks);
    free(ddp->arrivals);
    free(ddp->params);
    free(ddp->devices);
    free(ddp);
}

// ## Forward
//
// Only batch norm's running statistics are sent here. They are not parameters and have no
// gradients, so nothing else would keep them equal. As in PyTorch, a forward pass does not send
// them if the previous one was under `no_sync`.

void ddp_forward(Ddp *ddp, Tensor *const X[], Tensor *y_hat[]) {
    trace_label("exchange buffers");
    if (!ddp->options.keep_buffers && ddp->was_sync) broadcast(ddp, false);
    ddp->was_sync = ddp->sync;
    trace_label("forward");
    forward_all(ddp->net, X, ddp->k, y_hat);
}

// ## What must hold when a bucket is exchanged
//
// All ranks must bring the same bucket, and all gradients in it must be final.

// The bucket whose memory rank i brings to meeting b.
static int bucket_brought(const Ddp *ddp, int i, int b) {
    const float *all = flat_parameters(ddp->net, ddp->devices[i]).grad->data;
    int brought = 0;
    while (all + begin_of_bucket(ddp, brought)->first != ddp->ranks[i][b].grads->data) brought++;
    return brought;
}

static void check_bucket(const Ddp *ddp, int b) {
    const Buckets *buckets = &ddp->buckets;
    for (int i = 0; i < ddp->k; i++) {
        int brought = bucket_brought(ddp, i, b);
        if (brought != b)
            die("start buckets in the same order on all ranks, whichever is ready first",
                "exchange %d: rank 0 is at bucket %d, rank %d at bucket %d", b, b, i, brought);
        for (int g = buckets->first[b]; g < buckets->first[b + 1]; g++)
            if (!ddp->arrivals[i * ddp->num_params + buckets->order[g]].final)
                die("a bucket may be sent when the last of its gradients is final",
                    "bucket %d of rank %d is sent before the gradient of %s has arrived", b, i,
                    ddp->params[buckets->order[g]]->name);
    }
}

static void start_bucket(Ddp *ddp, int b) {
    Tensor *grads[MAX_DEVICES];
    Event ready[MAX_DEVICES];
    char label[32];
    check_bucket(ddp, b);
    for (int i = 0; i < ddp->k; i++) {
        grads[i] = ddp->ranks[i][b].grads;
        ready[i] = ddp->ranks[i][b].ready;
    }
    snprintf(label, sizeof label, "exchange bucket %d", b);
    exchange_begin(label, ddp->devices, ready, ddp->k);
    ddp->options.sum(grads, ddp->k); // allreduce(), if nothing else was asked for
    exchange_end();
}

static bool next_is_ready(const Ddp *ddp) {
    if (ddp->started == ddp->buckets.n) return false;
    for (int i = 0; i < ddp->k; i++)
        if (ddp->ranks[i][ddp->started].missing > 0) return false;
    return true;
}

static void mark_final(Tensor *t, void *context) {
    Arrival *a = context;
    Ddp *ddp = a->ddp;
    if (!ddp->sync) return;
    RankBucket *bucket = &ddp->ranks[a->rank][bucket_with(&ddp->buckets, a->param)];
    a->final = true;
    if (--bucket->missing == 0) bucket->ready = device_record(t->device);
    while (next_is_ready(ddp)) start_bucket(ddp, ddp->started++);
}

static void hook_all(Ddp *ddp, bool on) {
    for (int i = 0; i < ddp->k; i++)
        for (int p = 0; p < ddp->num_params; p++) {
            Arrival *a = &ddp->arrivals[i * ddp->num_params + p];
            *a = (Arrival){.ddp = ddp, .rank = i, .param = p};
            when_grad_is_final(parameter_data(ddp->params[p], ddp->devices[i]),
                               on ? mark_final : NULL, a);
        }
}

static void nothing_is_final(Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++) ddp->arrivals[a].final = false;
    for (int i = 0; i < ddp->k; i++)
        for (int b = 0; b < ddp->buckets.n; b++)
            ddp->ranks[i][b].missing = ddp->buckets.first[b + 1] - ddp->buckets.first[b];
    ddp->started = 0;
}

// ## Parameters that a step does not use
//
// They get no gradient, and their bucket would wait for it forever. So this is an error, and the
// message names one. With `find_unused`, DDP first searches the tape for parameters that no
// operation on it has read. Their gradients are final before backward begins.

static void find_unused(Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++) {
        Arrival *arrival = &ddp->arrivals[a];
        Tensor *t = parameter_data(ddp->params[arrival->param], ddp->devices[arrival->rank]);
        if (!tape_has(t)) mark_final(t, arrival);
    }
}

static void check_all_came(const Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++)
        if (!ddp->arrivals[a].final)
            die("its bucket would wait forever: use it for the loss, or set .find_unused",
                "the parameter %s got no gradient on rank %d",
                ddp->params[ddp->arrivals[a].param]->name, ddp->arrivals[a].rank);
}

// ## The end of backward

static void wait_for_sums(Ddp *ddp) {
    for (int i = 0; i < ddp->k; i++)
        device_wait(ddp->devices[i], queue_record(comm_queue(ddp->devices[i])));
}

void ddp_backward(Ddp *ddp, Tensor *const losses[]) {
    trace_label("backward");
    if (ddp->sync) nothing_is_final(ddp);
    if (ddp->sync && ddp->options.find_unused) find_unused(ddp);
    backward_all(losses, ddp->k);
    if (!ddp->sync) return;
    check_all_came(ddp);
    wait_for_sums(ddp);
}

void ddp_no_sync(Ddp *ddp, bool on) { ddp->sync = !on; }

// ## A step
//
// Even with unequal shards, this uses the gradient of the whole minibatch. PyTorch's mean of means
// gives the rows of a small shard more weight.

void ddp_update(Ddp *ddp, float lr, int batch_size) {
    trace_label("update");
    for (int i = 0; i < ddp->k; i++) sgd_step(ddp->net, ddp->devices[i], lr, batch_size);
}

void ddp_step(Ddp *ddp, Tensor *const X_shards[], Tensor *const y_shards[], float lr,
              int batch_size, Tensor *losses[]) {
    Tensor *y_hat[MAX_DEVICES];
    ddp_forward(ddp, X_shards, y_hat);
    for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    ddp_backward(ddp, losses);
    ddp_update(ddp, lr, batch_size);
}

// ## The formula

Traffic ddp_bytes(const Ddp *ddp, int i) {
    size_t buffers = ddp->options.keep_buffers ? 0 : buffer_bytes(ddp->net);
    Traffic bytes = {i == 0 ? (size_t)(ddp->k - 1) * buffers : 0, i == 0 ? 0 : buffers};
    for (int b = 0; b < ddp->buckets.n; b++) {
        Traffic t = allreduce_bytes(chosen_allreduce(), ddp->buckets.floats[b], ddp->k, i);
        bytes.sent += t.sent;
        bytes.received += t.received;
    }
    return bytes;
}
