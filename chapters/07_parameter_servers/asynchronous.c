// asynchronous.c: each worker's own queue computes, pushes and pulls. The servers are pieces of the
// host's memory, each with a lock. Push and pull are one call at the end of a step, made by the
// thread that does the queue's work. So workers meet at the servers in the order in which they
// arrive, which is not known before. The host only keeps the queues filled.
#include "asynchronous.h"

#include "common/base/error.h"
#include "common/base/platform.h"
#include "common/data/evaluate.h"
#include "common/program/interrupt.h"
#include "common/tensor/functional.h"
#include "chapters/03_split_batch/split_batch.h"

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
    int number;
    Worker worker;
    Tensor *X, *y, *grads, *params; // on the host: its rows, what it pushes, and what it pulls
    long enqueued;                  // steps
    _Atomic long pushed;            // steps
    long based_on[MOST_SERVERS];    // versions that it pulled
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

// The planted mistake: two visits, so that others come in between.
static void visit_twice(Runner *r, int s, Range keys) {
    Range first = {keys.first, keys.count / 2};
    Range rest = {keys.first + first.count, keys.count - first.count};
    visit_server(r, s, first);
    sleep_seconds(1e-3);
    visit_server(r, s, rest);
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
        int s = (r->number + turn) % run->lesson->S;
        Range keys = run->shelves[s].keys;
        (run->options->careless ? visit_twice : visit_server)(r, s, keys);
        if (run->options->ones && is_torn(r->params->data + keys.first, keys.count)) run->torn++;
    }
    r->pushed++;
}

// ## A worker's step

static void enqueue_step(Runner *r) {
    Device *device = r->worker.device;
    Tensor *X, *y;
    ps_load(r->run->lesson, r->enqueued, r->number, r->X, r->y);
    begin_step(device);
    split_batch(r->X, r->y, &device, 1, &X, &y);
    worker_gradients(&r->worker, X, y);
    if (r->run->options->ones) tensor_fill(r->worker.grads, 1);
    tensor_copy(r->grads, r->worker.grads);
    tensor_fill(r->worker.grads, 0);
    queue_call(compute_queue(device), push_and_pull, r);
    tensor_copy(r->worker.params, r->params);
    r->enqueued++;
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

// ## All of it

static void open_runner(Run *run, Runner *r, int w) {
    const PsLesson *l = run->lesson;
    int n = (int)lenet_floats();
    *r = (Runner){.run = run, .number = w, .worker = worker_new(try_gpu(w), l->seed)};
    r->X = tensor_new(host(), ps_rows(l, w), 1, l->train_data->rows, l->train_data->cols);
    r->y = tensor_new(host(), ps_rows(l, w));
    r->grads = tensor_new(host(), n);
    r->params = tensor_new(host(), n);
    if (l->start) tensor_write(r->worker.params, l->start);
    if (run->options->ones) tensor_fill(r->worker.params, 0);
    if (run->options->slow && num_gpus() == 0)
        device_set_slowdown(r->worker.device, run->options->slow[w]);
}

static void close_runner(Runner *r) {
    if (num_gpus() == 0) device_set_slowdown(r->worker.device, 1);
    worker_free(&r->worker);
    tensor_free(r->X);
    tensor_free(r->y);
    tensor_free(r->grads);
    tensor_free(r->params);
}

static double accuracy_of(const Run *run) {
    Worker probe = worker_new(try_gpu(0), run->lesson->seed);
    DataIter *test = data_iter_new(run->lesson->test_data, 256, false, 0);
    tensor_write(probe.params, run->params);
    double accuracy = evaluate_accuracy_gpu(lenet, probe.list, test, probe.device);
    data_iter_free(test);
    worker_free(&probe);
    return accuracy;
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
    run->params = tensor_values(runners[0].worker.params);
    AsyncResult result = {.pushes = run_all_steps(run, runners), .params = run->params};
    for (int s = 0; s < l->S; s++)
        CHECK(run->shelves[s].version == (options->careless ? 2 : 1) * result.pushes,
              "each push is applied once at each server");
    result.torn = run->torn;
    result.staleness = run->shelves[0].staleness;
    result.accuracy = l->test_data ? accuracy_of(run) : NAN;
    for (int w = 0; w < l->W; w++) close_runner(&runners[w]);
    free(runners);
    free(run);
    return result;
}

void async_result_free(AsyncResult *result) { free(result->params); }
