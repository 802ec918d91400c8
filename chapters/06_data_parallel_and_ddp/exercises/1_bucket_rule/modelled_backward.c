// modelled_backward.c: see modelled_backward.h.
#include "modelled_backward.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const Machine *machine;
    Hosts hosts;
    Module *net;
    Device *devices[MAX_DEVICES];
    int k, rows;
} the;

void model_ranks(const Machine *machine, Hosts hosts, Module *net, int k, int rows) {
    CHECK(k <= MAX_COMPUTING, "not more devices than an exercise has");
    the.machine = machine;
    the.hosts = hosts;
    the.net = net;
    the.k = k;
    the.rows = rows;
    for (int i = 0; i < k; i++) the.devices[i] = model_device(i);
}

// All devices begin at time 0.
static void start_clock(int k) {
    autograd_close();
    modelled_clock_start(the.machine);
    modelled_clock_use_ranks(the.hosts == HOST_EACH);
    for (int i = 0; i < k; i++) begin_step(the.devices[i]);
}

// ## A step up to its backward pass

static void load(int k, Tensor *X_shards[], Tensor *y_shards[]) {
    const Tensor X = {.ndim = 4, .shape = {k * the.rows, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {k * the.rows}, .device = host()};
    split_batch(&X, &y, the.devices, k, X_shards, y_shards);
    synchronize_all(); // images that come by one link would let the ranks begin one by one
    trace_begin_models();
    trace_label("forward");
}

static TraceSpan *end_of_trace(int *count) {
    int none;
    free(trace_end(&none)); // nothing was computed
    return trace_modelled(count);
}

static bool is_labelled(const TraceSpan *span, const char *label) {
    return strncmp(span->label, label, strlen(label)) == 0;
}

static double begin_of_backward(const TraceSpan spans[], int count) {
    double begin = INFINITY;
    for (int i = 0; i < count; i++)
        if (is_labelled(&spans[i], "backward")) begin = fmin(begin, spans[i].start);
    return begin;
}

// ## One rank alone
//
// Each time a gradient is final, what follows gets another label: "backward 1", "backward 2", ...
// So the gradient became final when the last piece of work with the label before that was done.

static int num_final, order[MOST_PARAMS]; // the parameters, as they became final

static void label_backward(void) {
    char label[32];
    snprintf(label, sizeof label, "backward %d", num_final);
    trace_label(label);
}

static void note_final(Tensor *t, void *number) {
    (void)t;
    order[num_final++] = *(int *)number;
    label_backward();
}

static int trained_params(const Module *net, Parameter *trained[MOST_PARAMS]) {
    Parameters all = parameters_of(net);
    int n = 0;
    for (int p = 0; p < all.n; p++) {
        CHECK(n < MOST_PARAMS, "room for all parameters");
        if (all.list[p]->trained) trained[n++] = all.list[p];
    }
    return n;
}

static void read_times(Backward *b, const TraceSpan spans[], int count) {
    double begin = begin_of_backward(spans, count), done[MOST_PARAMS + 1] = {0};
    for (int i = 0; i < count; i++) {
        int number;
        if (sscanf(spans[i].label, "backward %d", &number) != 1) continue;
        done[number] = fmax(done[number], spans[i].end - begin);
    }
    for (int f = 0; f < num_final; f++) {
        b->seconds = fmax(b->seconds, done[f]);
        b->final[order[f]] = b->seconds;
    }
    b->seconds = fmax(b->seconds, done[num_final]);
}

Backward model_backward(void) {
    Parameter *params[MOST_PARAMS];
    Tensor *X, *y;
    int numbers[MOST_PARAMS], n = trained_params(the.net, params), count;
    Backward b = {.num_params = n};
    start_clock(1);
    place_on(the.net, the.devices[0]);
    num_final = 0;
    for (int p = 0; p < n; p++) {
        numbers[p] = p;
        b.sizes[p] = numel(params[p]->start);
        when_grad_is_final(parameter_data(params[p], the.devices[0]), note_final, &numbers[p]);
    }
    load(1, &X, &y);
    Tensor *loss = sum(cross_entropy(forward(the.net, X), y));
    label_backward();
    backward(loss);
    TraceSpan *spans = end_of_trace(&count);
    read_times(&b, spans, count);
    free(spans);
    restart(the.net);
    return b;
}

// ## All ranks
//
// Chapter 6's DDP with a bucket for each gradient, of which only the last in one of the given
// buckets is summed, and the others with it: they are behind it in memory.

static struct {
    const int *bucket_of;
    int next, floats;
} given;

static void sum_given(Tensor *const grads[], int k) {
    Tensor buckets[MAX_COMPUTING], *all[MAX_COMPUTING];
    int p = given.next--;
    given.floats += (int)numel(grads[0]);
    if (p > 0 && given.bucket_of[p - 1] == given.bucket_of[p]) return;
    for (int i = 0; i < k; i++) {
        buckets[i] = *grads[i];
        buckets[i].shape[0] = given.floats;
        all[i] = &buckets[i];
    }
    allreduce(all, k);
    given.floats = 0;
}

double model_ddp(const int bucket_of[]) {
    Tensor *X[MAX_COMPUTING], *y[MAX_COMPUTING], *y_hat[MAX_COMPUTING], *losses[MAX_COMPUTING];
    int count;
    start_clock(the.k);
    Ddp *ddp = ddp_new(
        the.net, the.devices, the.k,
        (DdpOptions){
            .first_bucket_bytes = 1, .bucket_bytes = 1, .keep_buffers = true, .sum = sum_given});
    given.bucket_of = bucket_of;
    given.next = ddp->num_params - 1;
    load(the.k, X, y);
    ddp_forward(ddp, X, y_hat);
    for (int i = 0; i < the.k; i++) losses[i] = sum(cross_entropy(y_hat[i], y[i]));
    ddp_backward(ddp, losses);
    TraceSpan *spans = end_of_trace(&count);
    double begin = begin_of_backward(spans, count), end = begin;
    for (int i = 0; i < count; i++)
        if (is_labelled(&spans[i], "backward") || is_labelled(&spans[i], "exchange bucket"))
            end = fmax(end, spans[i].end);
    free(spans);
    ddp_free(ddp);
    restart(the.net);
    return end - begin;
}

int fill_buckets(const Backward *b, size_t first_bytes, size_t bytes, int bucket_of[]) {
    int last_first[MOST_PARAMS], n;
    for (int p = 0; p < b->num_params; p++) last_first[p] = b->num_params - 1 - p;
    Buckets buckets = buckets_of(b->sizes, last_first, b->num_params, first_bytes, bytes);
    for (int p = 0; p < b->num_params; p++) bucket_of[p] = bucket_with(&buckets, p);
    n = buckets.n;
    buckets_free(&buckets);
    return n;
}

// ## The exchange alone
//
// From the begin of its first copy: what the host needs until then, it needs ahead of time when the
// exchange is one of many things that it launches.

double model_exchange(size_t bytes) {
    Tensor *data[MAX_COMPUTING];
    int n = (int)(bytes / sizeof(float)), count;
    if (n == 0) return 0;
    start_clock(the.k);
    for (int i = 0; i < the.k; i++) data[i] = tensor_new(the.devices[i], n);
    trace_begin_models();
    communicate_begin();
    allreduce(data, the.k);
    communicate_end();
    TraceSpan *spans = end_of_trace(&count);
    double begin = INFINITY, end = 0;
    for (int i = 0; i < count; i++) {
        begin = fmin(begin, spans[i].start);
        end = fmax(end, spans[i].end);
    }
    free(spans);
    for (int i = 0; i < the.k; i++) tensor_free(data[i]);
    return end - begin;
}
