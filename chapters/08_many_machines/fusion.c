// fusion.c: see fusion.h. (In Horovod a background thread does this. Here it is the host, which has
// nothing else to do once all work is enqueued.)
#include "fusion.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

// A gradient of this rank.
typedef struct Request {
    bool final;  // its kernels are enqueued,
    Event ready; // and done when this is reached
    bool summed; // in this step
} Request;

struct Fusion {
    FusionOptions options;
    int num_params;
    Parameter **params;
    Request *requests; // [num_params]
    Tensor *buffer;    // NULL until something is fused
    FusionCounts counts;
};

static Tensor *gradient(const Fusion *f, int p) {
    return parameter_data(f->params[p], dist_device())->grad;
}

// ## What is ready

// Autograd's hook: the kernels of this gradient are enqueued.
static void is_enqueued(Tensor *t, void *request) {
    Request *r = request;
    r->ready = device_record(t->device);
    r->final = true;
}

void fusion_begin(Fusion *f) {
    for (int p = 0; p < f->num_params; p++) f->requests[p].final = f->requests[p].summed = false;
}

static bool is_ready_here(const Fusion *f, int p) {
    const Request *r = &f->requests[p];
    if (!r->final)
        die("use it for the loss", "the parameter %s got no gradient: others wait for it",
            f->params[p]->name);
    return event_reached(r->ready);
}

// For each gradient, a rank votes 1 if it is ready here and not yet summed, else 0. The votes are
// summed like everything else, so a gradient with W votes is ready on all ranks.
static int negotiate(Fusion *f, bool ready[]) {
    double *votes = xmalloc(sizeof *votes * (size_t)f->num_params);
    int found = 0;
    for (int p = 0; p < f->num_params; p++)
        votes[p] = !f->requests[p].summed && is_ready_here(f, p);
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

static void copy_fused(Fusion *f, const int list[], int n, bool back) {
    float *at = f->buffer->data;
    Device *device = dist_device();
    for (int j = 0; j < n; j++) {
        const Tensor *grad = gradient(f, list[j]);
        if (back)
            device_copy(device, grad->data, device, at, tensor_bytes(grad));
        else
            device_copy(device, at, device, grad->data, tensor_bytes(grad));
        at += numel(grad);
    }
}

static void need_buffer(Fusion *f, int floats) {
    if (f->buffer && (int)numel(f->buffer) >= floats) return;
    synchronize_all();
    tensor_free(f->buffer);
    f->buffer = tensor_new(dist_device(), floats);
}

// All of this is on the communication queue, so backward continues beside it.
static void exchange(Fusion *f, const int list[], int n, int floats) {
    if (n > 1) need_buffer(f, floats);
    communicate_begin();
    if (n > 1) copy_fused(f, list, n, false);
    Tensor *data = n > 1 ? tensor_slice(f->buffer, 0, 1, &floats) : gradient(f, list[0]);
    dist_note("fused from %s on, cycle %ld", f->params[list[0]]->name, f->counts.cycles);
    dist_all_reduce(NULL, data);
    if (n > 1) copy_fused(f, list, n, true);
    communicate_end();
    if (n > 1) tensor_free(data);
    for (int j = 0; j < n; j++) f->requests[list[j]].summed = true;
    f->counts.exchanges++;
}

// From the last parameter to the first. A buffer is sent when the next gradient does not fit.
static void exchange_ready(Fusion *f, const bool ready[]) {
    int *list = xmalloc(sizeof *list * (size_t)f->num_params), n = 0;
    size_t floats = 0;
    for (int p = f->num_params - 1; p >= 0; p--) {
        if (!ready[p]) continue;
        size_t more = numel(f->params[p]->start);
        if (n > 0 && (floats + more) * sizeof(float) > f->options.threshold) {
            exchange(f, list, n, (int)floats);
            n = 0;
            floats = 0;
        }
        list[n++] = p;
        floats += more;
    }
    if (n > 0) exchange(f, list, n, (int)floats);
    free(list);
}

// ## Cycles

void fusion_exchange(Fusion *f) {
    bool *ready = xcalloc((size_t)f->num_params, sizeof *ready);
    double start = seconds_now();
    int left = f->num_params;
    for (long cycle = 1; left > 0; cycle++) {
        double wait = fmax(0, start + (double)cycle * f->options.cycle - seconds_now());
        nanosleep(&(struct timespec){(time_t)wait, (long)(wait * 1e9) % 1000000000}, NULL);
        left -= negotiate(f, ready);
        exchange_ready(f, ready);
    }
    device_wait(dist_device(), queue_record(comm_queue(dist_device())));
    free(ready);
}

Fusion *fusion_new(Module *net, FusionOptions options) {
    Parameters all = parameters_of(net);
    Fusion *f = xcalloc(1, sizeof *f);
    f->options = options;
    f->params = xmalloc(sizeof *f->params * (size_t)all.n);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) f->params[f->num_params++] = all.list[p];
    f->requests = xcalloc((size_t)f->num_params, sizeof *f->requests);
    for (int p = 0; p < f->num_params; p++)
        when_grad_is_final(parameter_data(f->params[p], dist_device()), is_enqueued,
                           &f->requests[p]);
    return f;
}

void fusion_free(Fusion *f) {
    synchronize_all();
    tensor_free(f->buffer);
    for (int p = 0; p < f->num_params; p++)
        when_grad_is_final(parameter_data(f->params[p], dist_device()), NULL, NULL);
    free(f->requests);
    free(f->params);
    free(f);
}

FusionCounts fusion_counts(const Fusion *f) { return f->counts; }
