// servers.c: who holds which parameters, and how they are updated.
//
// In data parallelism so far every device held all parameters and updated them. A *parameter
// server* holds some of them, and is the only one to update those; *workers* pull parameters,
// compute gradients, and push these.
#include "servers.h"

#include "common/base/error.h"
#include "common/tensor/functional.h"

#include <stdlib.h>

// ## Keys
//
// Every parameter has a *key*, and every server is responsible for a range of keys. Here a key is
// the place of a number in the vector of all parameters, and servers have ranges as equal as can
// be. (With a tensor as a key, one server would have most: of LeNet's 129,068 numbers, 102,400 are
// in one tensor. Exercise 1 is about that.)

Servers *servers_new(Device *const devices[], int S, int W, uint64_t seed, float lr) {
    CHECK(S > 0 && S <= MOST_SERVERS && W > 0 && W <= MOST_WORKERS, "1 to 64 servers and workers");
    Servers *v = xcalloc(1, sizeof *v);
    *v = (Servers){.S = S, .W = W, .lr = lr};
    Worker start = worker_new(devices[0], seed);
    for (int s = 0; s < S; s++) {
        v->devices[s] = devices[s];
        v->keys[s] = equal_range((long)lenet_floats(), S, s);
        int n = (int)v->keys[s].count;
        v->params[s] = tensor_new(devices[s], n);
        v->sum[s] = tensor_new(devices[s], n);
        tensor_fill(v->sum[s], 0);
        for (int w = 0; w < W; w++) v->received[s][w] = tensor_new(devices[s], n);
        device_copy(devices[s], v->params[s]->data, devices[0],
                    start.params->data + v->keys[s].first, tensor_bytes(v->params[s]));
    }
    synchronize_all();
    worker_free(&start);
    return v;
}

void servers_free(Servers *v) {
    synchronize_all();
    for (int s = 0; s < v->S; s++) {
        tensor_free(v->params[s]);
        tensor_free(v->sum[s]);
        for (int w = 0; w < v->W; w++) tensor_free(v->received[s][w]);
    }
    free(v);
}

void servers_start_from(Servers *v, const float *params) {
    for (int s = 0; s < v->S; s++)
        device_copy(v->devices[s], v->params[s]->data, host(), params + v->keys[s].first,
                    tensor_bytes(v->params[s]));
    synchronize_all();
}

// ## Push and pull

void servers_push(Servers *v, int w, Worker *worker, Push push) {
    CHECK(!v->pushes[w].waits, "a worker pulls before it pushes again");
    for (int s = 0; s < v->S; s++)
        device_copy(v->devices[s], v->received[s][w]->data, worker->device,
                    worker->grads->data + v->keys[s].first, tensor_bytes(v->received[s][w]));
    tensor_fill(worker->grads, 0);
    v->pushes[w] = push;
    v->pushes[w].waits = true;
}

void servers_drop(Servers *v, Worker *worker) {
    tensor_fill(worker->grads, 0);
    v->dropped++;
}

void servers_pull(Servers *v, Worker *worker) {
    for (int s = 0; s < v->S; s++)
        device_copy(worker->device, worker->params->data + v->keys[s].first, v->devices[s],
                    v->params[s]->data, tensor_bytes(v->params[s]));
}

// ## Update
//
// What was pushed is applied when somebody pulls: nobody can tell the difference, and gradients of
// the same step that are there by then can be summed before they are applied, in the order of the
// workers. So where all workers push before anybody pulls, which is synchronous training, the bits
// are those of chapter 4, whoever was first.
//
// Whether alone or summed, a push counts the same: its gradients are divided by the rows of the
// whole minibatch of its step, its own shard and those of the other workers. So whatever the order,
// and whatever is dropped, each image has the same weight. (Others divide a push by the rows of its
// own shard. That is W times the learning rate.)
//
// With `--staleness-lr` a push of staleness t counts 1/t [@zhang2016]:
// what was computed long ago is trusted less. With W workers that are all
// about W - 1 behind it is much the same as a learning rate that is W - 1 times smaller, so what it
// is good for is a larger one, with which stale pushes would not learn at all. Exercise 2 asks for
// that.

// The oldest step of which there is a push; -1: there is none.
static long oldest_clock(const Servers *v) {
    long oldest = -1;
    for (int w = 0; w < v->W; w++)
        if (v->pushes[w].waits && (oldest < 0 || v->pushes[w].clock < oldest))
            oldest = v->pushes[w].clock;
    return oldest;
}

// How stale a push is: so many others were applied since its worker pulled.
static long staleness_of(Servers *v, const Push *push, long applied) {
    long stale = applied - push->based_on;
    v->staleness[stale < MOST_STALE ? stale : MOST_STALE]++;
    v->stale_sum += stale;
    if (stale > v->stale_most) v->stale_most = stale;
    return stale;
}

static void add_push(Servers *v, int w, long stale) {
    for (int s = 0; s < v->S; s++) {
        Tensor *received = v->received[s][w];
        if (v->lr_by_staleness && stale > 1)
            launch(v->devices[s], scale, .x = received->data, .factor = 1 / (float)stale,
                   .n = numel(received));
        launch(v->devices[s], add, .y = v->sum[s]->data, .x = received->data, .n = numel(received));
    }
}

static void apply_clock(Servers *v, long clock) {
    int rows = 0;
    long before = v->applied; // those of one step are no staler for each other
    for (int w = 0; w < v->W; w++) {
        Push *push = &v->pushes[w];
        if (!push->waits || push->clock != clock) continue;
        add_push(v, w, staleness_of(v, push, before));
        rows = push->rows;
        push->waits = false;
        v->applied++;
    }
    for (int s = 0; s < v->S; s++)
        launch(v->devices[s], sgd, .param = v->params[s]->data, .grad = v->sum[s]->data,
               .lr = v->lr, .batch_size = rows, .n = numel(v->sum[s]));
}

void servers_apply(Servers *v, long before) {
    for (long clock = oldest_clock(v); clock >= 0 && clock < before; clock = oldest_clock(v))
        apply_clock(v, clock);
}

// ## All at once
//
// If all workers sent to server 0 first, then all to server 1, one server would be at work and the
// others would have to wait. So server s begins with worker s W/S, and goes on around. Nobody waits
// for a transfer but who needs what it brings: that is what events are for.

static void push_all(Servers *v, Worker workers[], const Event ready[]) {
    for (int turn = 0; turn < v->W; turn++)
        for (int s = 0; s < v->S; s++) {
            int w = (s * v->W / v->S + turn) % v->W;
            device_copy_after(ready[w], v->devices[s], v->received[s][w]->data,
                              workers[w].grads->data + v->keys[s].first,
                              tensor_bytes(v->received[s][w]));
        }
}

static void pull_all(Servers *v, Worker workers[], const Event updated[]) {
    for (int turn = 0; turn < v->S; turn++)
        for (int w = 0; w < v->W; w++) {
            int s = (w * v->S / v->W + turn) % v->S;
            device_copy_after(updated[s], workers[w].device,
                              workers[w].params->data + v->keys[s].first, v->params[s]->data,
                              tensor_bytes(v->params[s]));
        }
}

void servers_exchange(Servers *v, Worker workers[], int rows) {
    Event ready[MOST_WORKERS], arrived[MOST_SERVERS], updated[MOST_SERVERS], done[MOST_WORKERS];
    for (int w = 0; w < v->W; w++) ready[w] = device_record(workers[w].device);
    push_all(v, workers, ready);
    for (int s = 0; s < v->S; s++) arrived[s] = device_record(v->devices[s]);
    for (int w = 0; w < v->W; w++) v->pushes[w] = (Push){.waits = true, .rows = rows};
    servers_apply(v, ALL_CLOCKS);
    for (int s = 0; s < v->S; s++) updated[s] = device_record(v->devices[s]);
    pull_all(v, workers, updated);
    // Gradients are overwritten when all have read them, parameters when all have them.
    for (int w = 0; w < v->W; w++) {
        done[w] = device_record(workers[w].device);
        for (int s = 0; s < v->S; s++) device_wait(workers[w].device, arrived[s]);
        tensor_fill(workers[w].grads, 0);
    }
    for (int s = 0; s < v->S; s++)
        for (int w = 0; w < v->W; w++) device_wait(v->devices[s], done[w]);
}

// ## Bytes by the formulas
//
// P bytes of parameters. A worker sends P and receives P, whatever S is. A server has P/S of them,
// and W workers: it receives W P/S and sends as much. So one server is the bottleneck, and each of
// as many servers as workers has what a worker has, 2 P in both directions together.
//
// If such servers live on the workers' own devices, a worker's own range does not travel: a device
// sends and receives $(W-1)/W \cdot P$ as a worker and as much as a server, $4 (W-1)/W \cdot P$
// together. That is what a device of a ring has.

size_t worker_bytes_per_step(void) { return lenet_floats() * sizeof(float); }

size_t server_bytes_per_step(const Servers *v, int s) {
    return (size_t)v->W * (size_t)v->keys[s].count * sizeof(float);
}

size_t shared_bytes_per_step(const Servers *v, int i) {
    size_t own = (size_t)v->keys[i].count, others = lenet_floats() - own;
    return (others + (size_t)(v->W - 1) * own) * sizeof(float);
}
