// asynchronous.c: each worker's queue is a thread that computes and then visits the servers. A
// server is a part of the host's memory with a lock. The host only keeps the queues filled.
#include "asynchronous.h"

#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/program/interrupt.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// A server: the parameters `keys`, and how many pushes were applied to them.
typedef struct Shelf {
    Mutex lock;
    Range keys;
    long version;
    Staleness staleness;
} Shelf;

typedef struct Run {
    const PsLesson *lesson;
    const AsyncOptions *options;
    float *params, scale; // of all servers, one range after the other; factor of a gradient
    Shelf shelves[MOST_SERVERS];
    _Atomic long torn;
} Run;

typedef struct Runner {
    Run *run;
    Station station;
    Tensor *grads, *params;      // on the host: what it pushes, and what it pulls
    long enqueued;               // steps
    _Atomic long pushed;         // steps
    long based_on[MOST_SERVERS]; // versions that it pulled
} Runner;

// One visit to one server: push a range of gradients, pull the same range of parameters. The lock
// lets in one worker at a time.
static void visit_server(Runner *r, int s) {
    Shelf *shelf = &r->run->shelves[s];
    Range keys = shelf->keys;
    float *params = r->run->params + keys.first, *mine = r->params->data + keys.first;
    const float *grads = r->grads->data + keys.first;
    mutex_lock(&shelf->lock);
    long stale = shelf->version - r->based_on[s]; // pushes of others since the last visit
    staleness_add(&shelf->staleness, stale);
    for (long i = 0; i < keys.count; i++) params[i] -= r->run->scale * grads[i];
    memcpy(mine, params, (size_t)keys.count * sizeof *params);
    r->based_on[s] = ++shelf->version;
    mutex_unlock(&shelf->lock);
}

// The worker's thread calls this when the gradients are in the host's memory. If there are enough
// servers, no two workers begin with the same one.
static void push_and_pull(void *context) {
    Runner *r = context;
    int S = r->run->lesson->S;
    for (int turn = 0; turn < S; turn++) visit_server(r, (r->station.number + turn) % S);
    r->pushed++;
}

// If all gradients are 1, all parameters of a server are equal between two visits.
static void look_for_torn_pulls(void *context) {
    Runner *r = context;
    const Shelf *shelves = r->run->shelves;
    int together = r->run->options->ones;
    for (int s = 0; s + together <= r->run->lesson->S; s += together) {
        Range last = shelves[s + together - 1].keys;
        bool torn = false;
        for (long i = shelves[s].keys.first + 1; i < last.first + last.count; i++)
            torn = torn || r->params->data[i] != r->params->data[i - 1];
        r->run->torn += torn;
    }
}

static void enqueue_step(Runner *r) {
    Worker *worker = &r->station.worker;
    Queue *queue = compute_queue(worker->device);
    bool ones = r->run->options->ones > 0;
    if (ones)
        tensor_fill(worker->grads, 1);
    else
        station_compute(&r->station, r->run->lesson, r->enqueued);
    r->enqueued++;
    tensor_copy(r->grads, worker->grads);
    tensor_fill(worker->grads, 0);
    queue_call(queue, push_and_pull, r);
    if (ones) queue_call(queue, look_for_torn_pulls, r);
    tensor_copy(worker->params, r->params);
}

// A worker that has pushed gets its next step.
static long run_all_steps(const Run *run, Runner runners[]) {
    int W = run->lesson->W;
    long left = run->options->clocks * W, enqueued = 0;
    while (enqueued < left && !interrupted()) {
        long before = enqueued;
        for (int w = 0; w < W && enqueued < left; w++) {
            if (runners[w].pushed < runners[w].enqueued) continue;
            enqueue_step(&runners[w]);
            enqueued++;
        }
        if (enqueued == before) sleep_seconds(1e-4);
    }
    synchronize_all();
    return enqueued;
}

static void open_runner(Run *run, Runner *r, int w) {
    const double *slow = run->options->slow;
    *r = (Runner){.run = run, .station = station_new(run->lesson, w)};
    r->grads = tensor_new(host(), (int)lenet_floats());
    r->params = tensor_new(host(), (int)lenet_floats());
    if (run->options->ones) tensor_fill(r->station.worker.params, 0);
    if (slow && num_gpus() == 0) device_set_slowdown(r->station.worker.device, slow[w]);
}

AsyncResult async_run(const PsLesson *l, const AsyncOptions *options) {
    Device *devices[MAX_COMPUTING];
    Run *run = xcalloc(1, sizeof *run);
    Runner *runners = xcalloc((size_t)l->W, sizeof *runners);
    *run = (Run){.lesson = l, .options = options, .scale = l->lr / (float)l->batch_size};
    open_devices(devices, l->W);
    for (int w = 0; w < l->W; w++) open_runner(run, &runners[w], w);
    for (int s = 0; s < l->S; s++)
        run->shelves[s].keys = equal_range((long)lenet_floats(), l->S, s);
    run->params = tensor_values(runners[0].station.worker.params);
    AsyncResult result = {.pushes = run_all_steps(run, runners), .params = run->params};
    for (int s = 0; s < l->S; s++)
        CHECK(run->shelves[s].version == result.pushes, "each push is applied once at each server");
    result.torn = run->torn;
    result.staleness = run->shelves[0].staleness;
    tensor_write(runners[0].station.worker.params, run->params);
    result.accuracy = l->test_data ? ps_accuracy(l, &runners[0].station.worker) : NAN;
    for (Runner *r = runners; r < runners + l->W; r++) {
        if (num_gpus() == 0) device_set_slowdown(r->station.worker.device, 1);
        station_free(&r->station);
        tensor_free(r->grads);
        tensor_free(r->params);
    }
    free(runners);
    free(run);
    return result;
}

void async_result_free(AsyncResult *result) { free(result->params); }
