// ddp.c: DistributedDataParallel.
//
// A *rank* is one of k processes that do the same, each with one device. Here all ranks are in one
// program, and the host goes through the lines of all of them; in chapter 8 they are processes.
#include "ddp.h"

#include "common/base/error.h"
#include "common/device/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ## Buckets
//
// The gradients of a network are slices of one long vector, in the order of its parameters (nn.h).
// Buckets that are filled from the last parameter to the first are slices of it, too: then a
// gradient is *in* its bucket as soon as it is computed, and nothing has to be copied. That is
// PyTorch's `gradient_as_bucket_view`. Without it, a gradient is computed in one place, copied into
// the bucket, and the sum is copied back: two more kernels for each parameter, and memory for all
// gradients once more.

static size_t *sizes_of(const Ddp *ddp) {
    size_t *sizes = xmalloc(sizeof *sizes * (size_t)ddp->num_params);
    for (int p = 0; p < ddp->num_params; p++) sizes[p] = numel(ddp->params[p]->start);
    return sizes;
}

// Where bucket b of a rank is: a slice of its gradients, or memory of its own.
static Tensor *bucket_memory(const Ddp *ddp, int rank, int b) {
    const Buckets *buckets = &ddp->buckets;
    int n = (int)buckets->floats[b], last = buckets->order[buckets->first[b + 1] - 1];
    if (ddp->options.copies) return tensor_new(ddp->devices[rank], n);
    Tensor *all = flat_parameters(ddp->net, ddp->devices[rank]).grad;
    return tensor_slice(all, ddp->params[last]->first, 1, &n);
}

static void make_buckets(Ddp *ddp, const int order[]) {
    const DdpOptions *o = &ddp->options;
    size_t *sizes = sizes_of(ddp);
    ddp->buckets =
        buckets_of(sizes, order, ddp->num_params, o->first_bucket_bytes, o->bucket_bytes);
    free(sizes);
    size_t n = (size_t)ddp->buckets.n;
    for (int i = 0; i < ddp->k; i++) {
        ddp->ranks[i] = xcalloc(n, sizeof **ddp->ranks);
        ddp->turn[i] = xcalloc(n, sizeof **ddp->turn);
        for (int b = 0; b < ddp->buckets.n; b++) {
            ddp->turn[i][b] = b;
            ddp->ranks[i][b].grads = bucket_memory(ddp, i, b);
        }
    }
}

static void free_buckets(Ddp *ddp) {
    for (int i = 0; i < ddp->k; i++) {
        for (int b = 0; b < ddp->buckets.n; b++) tensor_free(ddp->ranks[i][b].grads);
        free(ddp->ranks[i]);
        free(ddp->turn[i]);
    }
    buckets_free(&ddp->buckets);
}

// ## A replica on each rank
//
// In the beginning all ranks get the parameters of rank 0, whatever they had themselves. After
// that, parameters never move again: all ranks make the same updates with the same sums.

static void broadcast(Ddp *ddp, bool parameters) {
    FlatParameters from = flat_parameters(ddp->net, ddp->devices[0]);
    for (int i = 1; i < ddp->k; i++) {
        FlatParameters to = flat_parameters(ddp->net, ddp->devices[i]);
        if (parameters) tensor_copy(to.data, from.data);
        tensor_copy(to.buffers, from.buffers);
    }
}

static void hook_all(Ddp *ddp, bool on);

static DdpOptions with_defaults(DdpOptions o) {
    CHECK(!o.rebuild || o.copies, "buckets in another order are no slices: they need .copies");
    if (o.first_bucket_bytes == 0)
        o.first_bucket_bytes = o.bucket_bytes ? o.bucket_bytes : FIRST_BUCKET_BYTES;
    if (o.bucket_bytes == 0) o.bucket_bytes = BUCKET_BYTES;
    return o;
}

static void find_params(Ddp *ddp) {
    Parameters all = parameters_of(ddp->net);
    ddp->params = xmalloc(sizeof(Parameter *) * (size_t)all.n);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) ddp->params[ddp->num_params++] = all.list[p];
}

Ddp *ddp_new(Module *net, Device *const devices[], int k, DdpOptions options) {
    Ddp *ddp = xcalloc(1, sizeof *ddp);
    *ddp = (Ddp){
        .net = net, .k = k, .options = with_defaults(options), .sync = true, .was_sync = true};
    ddp->devices = xmalloc(sizeof *devices * (size_t)k);
    memcpy(ddp->devices, devices, sizeof *devices * (size_t)k);
    ddp->ranks = xcalloc((size_t)k, sizeof *ddp->ranks);
    ddp->turn = xcalloc((size_t)k, sizeof *ddp->turn);
    share_cores(devices, k);
    for (int i = 0; i < k; i++) place_on(net, devices[i]);
    find_params(ddp);
    ddp->arrivals = xcalloc((size_t)(k * ddp->num_params), sizeof *ddp->arrivals);
    ddp->came = xcalloc((size_t)ddp->num_params, sizeof *ddp->came);
    int *order = xmalloc(sizeof *order * (size_t)ddp->num_params);
    for (int p = 0; p < ddp->num_params; p++) order[p] = ddp->num_params - 1 - p;
    make_buckets(ddp, order);
    free(order);
    broadcast(ddp, true);
    hook_all(ddp, true);
    set_training(net, true);
    return ddp;
}

void ddp_free(Ddp *ddp) {
    synchronize_all();
    hook_all(ddp, false);
    free_buckets(ddp);
    free(ddp->ranks);
    free(ddp->turn);
    free(ddp->arrivals);
    free(ddp->came);
    free(ddp->params);
    free(ddp->devices);
    free(ddp);
}

// ## Forward
//
// Only the running statistics of batch norm cross here. They are no parameters and have no
// gradients, so nothing else would keep them equal. As in PyTorch, it is the forward *before* that
// counts: after one under `no_sync` they stay.

void ddp_forward(Ddp *ddp, Tensor *const X[], Tensor *y_hat[]) {
    trace_label("exchange buffers");
    if (!ddp->options.keep_buffers && ddp->was_sync) broadcast(ddp, false);
    ddp->was_sync = ddp->sync;
    trace_label("forward");
    forward_all(ddp->net, X, ddp->k, y_hat);
}

// ## Backward, and the exchange under it
//
// When all k ranks have all gradients of a bucket, its sum can begin: on the communication queue of
// each device, behind an event on its compute queue. The compute queue waits for nothing and goes
// on with backward.
//
// Buckets are started in one order, the same on all ranks, even if a later one happens to be ready
// first. An allreduce is a meeting: if rank 0 came to that of bucket 1 and rank 1 to that of bucket
// 0, they would wait for each other forever, or add up what does not belong together.

static RankBucket *at_turn(const Ddp *ddp, int rank) {
    return &ddp->ranks[rank][ddp->turn[rank][ddp->started]];
}

static void check_same_bucket(const Ddp *ddp) {
    for (int i = 1; i < ddp->k; i++) {
        int mine = ddp->turn[i][ddp->started], theirs = ddp->turn[0][ddp->started];
        if (mine != theirs)
            die("start buckets in one order on all ranks, whichever is ready first",
                "exchange %d: rank 0 is at bucket %d, rank %d at bucket %d", ddp->started, theirs,
                i, mine);
    }
}

static void check_all_final(const Ddp *ddp, int rank, int b) {
    const Buckets *buckets = &ddp->buckets;
    for (int i = buckets->first[b]; i < buckets->first[b + 1]; i++) {
        const Arrival *a = &ddp->arrivals[rank * ddp->num_params + buckets->order[i]];
        if (!a->final)
            die("a bucket may be sent when the last of its gradients is final",
                "bucket %d of rank %d is sent before the gradient of %s is there", b, rank,
                ddp->params[a->param]->name);
    }
}

// (All ranks have the same operations on their tapes, and backward_all() goes through them an
// operation at a time. So when the last rank has come so far, the events of all are recorded.)
static void start_bucket(Ddp *ddp) {
    Tensor *grads[MAX_DEVICES];
    char label[32];
    check_same_bucket(ddp);
    for (int i = 0; i < ddp->k; i++) {
        check_all_final(ddp, i, ddp->turn[i][ddp->started]);
        grads[i] = at_turn(ddp, i)->grads;
        queue_wait(comm_queue(ddp->devices[i]), at_turn(ddp, i)->ready);
    }
    snprintf(label, sizeof label, "exchange bucket %d", ddp->started);
    trace_label(label);
    communicate_begin(); // what allreduce() enqueues goes into the communication queues
    allreduce(grads, ddp->k);
    communicate_end();
    trace_label("backward");
    ddp->started++;
}

static bool all_are_ready(const Ddp *ddp) {
    if (ddp->started == ddp->buckets.n) return false;
    for (int i = 0; i < ddp->k; i++)
        if (at_turn(ddp, i)->missing > 0) return false;
    return true;
}

static Range place_in_bucket(const Ddp *ddp, int p, int b) {
    Range place = {0, (long)numel(ddp->params[p]->start)};
    const Buckets *buckets = &ddp->buckets;
    for (int i = buckets->first[b]; buckets->order[i] != p; i++)
        place.first += (long)numel(ddp->params[buckets->order[i]]->start);
    return place;
}

// Without views: from the gradient into the bucket, or back.
static void copy_gradient(const Arrival *a, bool back) {
    const Ddp *ddp = a->ddp;
    int b = bucket_with(&ddp->buckets, a->param);
    Device *device = ddp->devices[a->rank];
    const Tensor *grad = parameter_data(ddp->params[a->param], device)->grad;
    float *in_bucket = part_data(ddp->ranks[a->rank][b].grads, place_in_bucket(ddp, a->param, b));
    if (back)
        device_copy(device, grad->data, device, in_bucket, tensor_bytes(grad));
    else
        device_copy(device, in_bucket, device, grad->data, tensor_bytes(grad));
}

static void mark_final(Arrival *a) {
    Ddp *ddp = a->ddp;
    RankBucket *bucket = &ddp->ranks[a->rank][bucket_with(&ddp->buckets, a->param)];
    if (ddp->options.copies) copy_gradient(a, false);
    a->final = true;
    if (a->rank == 0) ddp->came[ddp->num_came++] = a->param;
    if (--bucket->missing == 0) bucket->ready = device_record(ddp->devices[a->rank]);
    while (all_are_ready(ddp)) start_bucket(ddp);
}

// The tape calls this when a gradient is final: autograd's hook.
static void gradient_is_final(Tensor *t, void *context) {
    Arrival *a = context;
    (void)t;
    if (a->ddp->sync) mark_final(a);
}

static void hook_all(Ddp *ddp, bool on) {
    for (int i = 0; i < ddp->k; i++)
        for (int p = 0; p < ddp->num_params; p++) {
            Arrival *a = &ddp->arrivals[i * ddp->num_params + p];
            *a = (Arrival){.ddp = ddp, .rank = i, .param = p};
            when_grad_is_final(parameter_data(ddp->params[p], ddp->devices[i]),
                               on ? gradient_is_final : NULL, a);
        }
}

static void nothing_is_final(Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++) ddp->arrivals[a].final = false;
    for (int i = 0; i < ddp->k; i++)
        for (int b = 0; b < ddp->buckets.n; b++)
            ddp->ranks[i][b].missing += ddp->buckets.first[b + 1] - ddp->buckets.first[b];
    ddp->started = ddp->num_came = 0;
}

// ## Parameters that a step does not use
//
// They get no gradient, and their bucket would wait for it forever. So that is an error, and it
// names them. With `find_unused` the tape is searched first, for parameters that no operation on it
// has read: their gradients are final before backward begins.

static bool is_used(const Arrival *a) {
    const Ddp *ddp = a->ddp;
    return tape_has(parameter_data(ddp->params[a->param], ddp->devices[a->rank]));
}

static void find_unused(Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++)
        if (!is_used(&ddp->arrivals[a])) mark_final(&ddp->arrivals[a]);
}

static void check_all_came(const Ddp *ddp) {
    for (int a = 0; a < ddp->k * ddp->num_params; a++)
        if (!ddp->arrivals[a].final)
            die("use it for the loss, or set .find_unused",
                "the parameter %s got no gradient on rank %d: its bucket would wait forever",
                ddp->params[ddp->arrivals[a].param]->name, ddp->arrivals[a].rank);
}

// ## The end of backward
//
// The compute queues wait until the last sum is there. With the order in which the gradients came,
// buckets can be filled anew, once. PyTorch does that after the first step, in which it has one
// bucket of everything; with `find_unused_parameters` it never does.

static void wait_for_sums(Ddp *ddp) {
    for (int i = 0; i < ddp->k; i++)
        device_wait(ddp->devices[i], queue_record(comm_queue(ddp->devices[i])));
    for (int a = 0; ddp->options.copies && a < ddp->k * ddp->num_params; a++)
        copy_gradient(&ddp->arrivals[a], true);
}

static void rebuild_buckets(Ddp *ddp) {
    ddp->options.rebuild = false; // from now on they stay
    synchronize_all();            // nobody uses their memory any more
    free_buckets(ddp);
    make_buckets(ddp, ddp->came);
}

void ddp_backward(Ddp *ddp, Tensor *const losses[]) {
    trace_label("backward");
    if (ddp->sync) {
        nothing_is_final(ddp);
        if (ddp->options.find_unused) find_unused(ddp);
    }
    backward_all(losses, ddp->k);
    if (!ddp->sync) return;
    check_all_came(ddp);
    wait_for_sums(ddp);
    if (ddp->options.rebuild) rebuild_buckets(ddp);
}

void ddp_no_sync(Ddp *ddp, bool on) { ddp->sync = !on; }

// ## A step
//
// Each rank has loaded its own part of the data (`sampler.c`). Each computes the gradients of its
// own rows, all get the sum, and each divides it by the rows of all ranks and makes the update.
//
// PyTorch divides otherwise: each rank takes the mean over its own rows, and DDP the mean over the
// ranks. That is the same if all ranks have as many rows, but for rounding. If not, ours is still
// the gradient of the whole minibatch, and theirs weighs the rows of a small shard more.

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

// ## Bytes by the formulas

Traffic ddp_gradient_bytes(const Ddp *ddp, int i) {
    Traffic bytes = {0};
    for (int b = 0; b < ddp->buckets.n; b++) {
        Traffic t = allreduce_bytes(chosen_allreduce(), ddp->buckets.floats[b], ddp->k, i);
        bytes.sent += t.sent;
        bytes.received += t.received;
    }
    return bytes;
}

Traffic ddp_buffer_bytes(const Ddp *ddp, int i) {
    size_t bytes = ddp->options.keep_buffers ? 0 : buffer_bytes(ddp->net);
    if (i == 0) return (Traffic){.sent = (size_t)(ddp->k - 1) * bytes};
    return (Traffic){.received = bytes};
}
