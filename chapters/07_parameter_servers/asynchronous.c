// asynchronous.c: each worker's own queue computes, and then pushes and pulls by one call. So
// workers meet at the servers in the order in which they arrive. The servers are pieces of the
// host's memory, each with a lock. The host only keeps the queues filled.
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
    float *params, scale; // of all servers, one range after the other; what a gradient counts
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

// ## At the servers

// One visit to one server: push a range of gradients, pull the same range of parameters. The lock
// lets in one worker at a time.
static void visit_server(Runner *r, int s, Range keys) {
    Shelf *shelf = &r->run->shelves[s];
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

// The planted mistake: others come in between, and some of them begin with the other half.
static void visit_twice(Runner *r, int s, Range keys) {
    long n = keys.count / 2, odd = r->station.number % 2;
    Range halves[] = {{keys.first, n}, {keys.first + n, keys.count - n}};
    visit_server(r, s, halves[odd]);
    sleep_seconds(1e-3);
    visit_server(r, s, halves[1 - odd]);
}

// With gradients that are all 1, all numbers of a range are equal between two updates.
static bool is_torn(const float *values, long n) {
    for (long i = 1; i < n; i++)
        if (values[i] != values[0]) return true;
    return false;
}

// The worker's queue calls this when the gradients have arrived in the host's memory. Each worker
// begins with another server.
static void push_and_pull(void *context) {
    Runner *r = context;
    Run *run = r->run;
    for (int turn = 0; turn < run->lesson->S; turn++) {
        int s = (r->station.number + turn) % run->lesson->S;
        Range keys = run->shelves[s].keys;
        (run->options->careless ? visit_twice : visit_server)(r, s, keys);
        if (run->options->ones && is_torn(r->params->data + keys.first, keys.count)) run->torn++;
    }
    r->pushed++;
}

// ## A worker's step

static void enqueue_step(Runner *r) {
    Worker *worker = &r->station.worker;
    station_compute(&r->station, r->run->lesson, r->enqueued++);
    if (r->run->options->ones) tensor_fill(worker->grads, 1);
    tensor_copy(r->grads, worker->grads);
    tensor_fill(worker->grads, 0);
    queue_call(compute_queue(worker->device), push_and_pull, r);
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
        CHECK(run->shelves[s].version == (options->careless ? 2 : 1) * result.pushes,
              "each push is applied once at each server");
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
