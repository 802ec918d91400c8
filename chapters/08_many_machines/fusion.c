// fusion.c: Horovod's tensor fusion.
//
// DDP's buckets are made before the training: which gradients belong together is known, and so is
// the order of the buckets. Horovod knows nothing of the network. Gradients come when they come, on
// each rank in an order of its own, and nobody may begin a sum before all are ready for the same
// one. So ranks talk first: each **cycle**, a millisecond say, each rank tells which of its
// gradients are ready; those that are ready on *all* ranks are copied into one buffer, up to its
// **threshold**, and summed as one vector. (In Horovod a thread in the background does it. Here it
// is the host, which has nothing else to do once all work is enqueued.)
//
// What is together depends on time, and so does a number's place in the buffer. With the ring,
// whose order of additions depends on the place, two runs differ in their last digits; with the
// star, the sharded one and the tree they do not.
#include "fusion.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/comm/process_group.h"

#include <stdlib.h>
#include <time.h>

// A gradient of this process.
typedef struct Request {
    Fusion *fusion;
    int device, param;
    bool final;  // its kernels are enqueued,
    Event ready; // and done when this is reached
} Request;

struct Fusion {
    FusionOptions options;
    int devices, num_params;
    Parameter **params;
    Request *requests;                  // [devices * num_params]
    bool *summed;                       // [num_params], in this step
    Tensor *buffers[MAX_LOCAL_DEVICES]; // NULL until something is to be fused
    size_t buffer_floats;
    FusionCounts counts;
};

static Request *request_of(const Fusion *f, int device, int p) {
    return &f->requests[device * f->num_params + p];
}

static Tensor *gradient(const Fusion *f, int device, int p) {
    return parameter_data(f->params[p], dist_device(device))->grad;
}

// ## What is ready

// Autograd's hook: the kernels of this gradient are enqueued.
static void is_enqueued(Tensor *t, void *context) {
    Request *r = context;
    r->ready = device_record(t->device);
    r->final = true;
}

void fusion_begin(Fusion *f) {
    for (int r = 0; r < f->devices * f->num_params; r++) f->requests[r].final = false;
    for (int p = 0; p < f->num_params; p++) f->summed[p] = false;
}

static bool is_ready_here(const Fusion *f, int p) {
    for (int i = 0; i < f->devices; i++) {
        const Request *r = request_of(f, i, p);
        if (!r->final)
            die("use it for the loss", "the parameter %s got no gradient: others wait for it",
                f->params[p]->name);
        if (!event_reached(r->ready)) return false;
    }
    return true;
}

// ready[p]: whether gradient p is ready on all ranks, and not yet summed.
static int negotiate(Fusion *f, bool ready[]) {
    double *votes = xmalloc(sizeof *votes * (size_t)f->num_params);
    int found = 0;
    for (int p = 0; p < f->num_params; p++) votes[p] = !f->summed[p] && is_ready_here(f, p);
    dist_note("what is ready, cycle %ld", f->counts.cycles + 1);
    dist_sum(NULL, votes, f->num_params);
    for (int p = 0; p < f->num_params; p++) {
        ready[p] = votes[p] == dist_get_world_size();
        found += ready[p];
    }
    free(votes);
    f->counts.cycles++;
    return found;
}

// ## One buffer of them

static void need_buffers(Fusion *f, size_t floats) {
    if (floats <= f->buffer_floats) return;
    synchronize_all();
    for (int i = 0; i < f->devices; i++) {
        tensor_free(f->buffers[i]);
        f->buffers[i] = tensor_new(dist_device(i), (int)floats);
    }
    f->buffer_floats = floats;
}

static void copy_fused(Fusion *f, const int list[], int n, bool back) {
    for (int i = 0; i < f->devices; i++) {
        float *at = f->buffers[i]->data;
        Device *device = dist_device(i);
        for (int j = 0; j < n; j++) {
            const Tensor *grad = gradient(f, i, list[j]);
            if (back)
                device_copy(device, grad->data, device, at, tensor_bytes(grad));
            else
                device_copy(device, at, device, grad->data, tensor_bytes(grad));
            at += numel(grad);
        }
    }
}

// All that is on the communication queues, so that backward goes on beside it.
static void exchange(Fusion *f, const int list[], int n, size_t floats) {
    Tensor *data[MAX_LOCAL_DEVICES];
    int count = (int)floats;
    if (n > 1) need_buffers(f, floats);
    communicate_begin();
    if (n > 1) copy_fused(f, list, n, false);
    for (int i = 0; i < f->devices; i++)
        data[i] = n > 1 ? tensor_slice(f->buffers[i], 0, 1, &count) : gradient(f, i, list[0]);
    dist_note("fused from %s on, cycle %ld", f->params[list[0]]->name, f->counts.cycles);
    dist_all_reduce(NULL, data);
    if (n > 1) copy_fused(f, list, n, true);
    communicate_end();
    for (int i = 0; i < f->devices && n > 1; i++) tensor_free(data[i]);
    for (int j = 0; j < n; j++) f->summed[list[j]] = true;
    f->counts.exchanges++;
}

// From the last parameter to the first, as they become ready; a buffer is sent when the next
// gradient has no room in it.
static void exchange_ready(Fusion *f, const bool ready[]) {
    int *list = xmalloc(sizeof *list * (size_t)f->num_params), n = 0;
    size_t floats = 0;
    for (int p = f->num_params - 1; p >= 0; p--) {
        if (!ready[p]) continue;
        size_t more = numel(f->params[p]->start);
        if (n > 0 && (floats + more) * sizeof(float) > f->options.threshold) {
            exchange(f, list, n, floats);
            n = 0;
            floats = 0;
        }
        list[n++] = p;
        floats += more;
    }
    if (n > 0) exchange(f, list, n, floats);
    free(list);
}

// ## Cycles

static void sleep_until(double when) {
    double left = when - seconds_now();
    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)(left * 1e9) % 1000000000}, NULL);
}

void fusion_exchange(Fusion *f) {
    bool *ready = xcalloc((size_t)f->num_params, sizeof *ready);
    double start = seconds_now();
    int left = f->num_params;
    for (long cycle = 1; left > 0; cycle++) {
        sleep_until(start + (double)cycle * f->options.cycle);
        left -= negotiate(f, ready);
        exchange_ready(f, ready);
    }
    for (int i = 0; i < f->devices; i++)
        device_wait(dist_device(i), queue_record(comm_queue(dist_device(i))));
    free(ready);
}

// ## From start to end

Fusion *fusion_new(Module *net, FusionOptions options) {
    Fusion *f = xcalloc(1, sizeof *f);
    Parameters all = parameters_of(net);
    *f = (Fusion){.options = options, .devices = dist_local_devices()};
    f->params = xmalloc(sizeof(Parameter *) * (size_t)all.n);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) f->params[f->num_params++] = all.list[p];
    f->requests = xcalloc((size_t)(f->devices * f->num_params), sizeof *f->requests);
    f->summed = xcalloc((size_t)f->num_params, sizeof *f->summed);
    for (int i = 0; i < f->devices; i++)
        for (int p = 0; p < f->num_params; p++) {
            *request_of(f, i, p) = (Request){.fusion = f, .device = i, .param = p};
            when_grad_is_final(parameter_data(f->params[p], dist_device(i)), is_enqueued,
                               request_of(f, i, p));
        }
    return f;
}

void fusion_free(Fusion *f) {
    synchronize_all();
    for (int i = 0; i < f->devices; i++) {
        tensor_free(f->buffers[i]);
        for (int p = 0; p < f->num_params; p++)
            when_grad_is_final(parameter_data(f->params[p], dist_device(i)), NULL, NULL);
    }
    free(f->requests);
    free(f->summed);
    free(f->params);
    free(f);
}

FusionCounts fusion_counts(const Fusion *f) { return f->counts; }
