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
} Shelf;

typedef struct Run Run;

enum { STAGES = 2 }; // steps that are enqueued at a worker: one is computed, the next one waits

typedef struct Runner {
    Run *run;
    int number;
    Worker worker;
    Tensor *grads, *params;        // on the host: what it pushes, and what it pulls
    Tensor *X[STAGES], *y[STAGES]; // on the host
    Event read[STAGES];            // the rows have gone to the device
    long enqueued;                 // steps
    _Atomic long pushed;           // steps that have been pushed
    long based_on[MOST_SERVERS];   // versions that it pulled
    Staleness staleness;           // of its pushes; read when everything is done
    long torn;
} Runner;

struct Run {
    const PsLesson *lesson;
    const AsyncOptions *options;
    float *params; // of all servers, one range after the other
    float scale;   // by which a gradient is multiplied
    Shelf shelves[MOST_SERVERS];
    Runner *runners;
    long enqueued; // steps of all workers
};

// ## At the servers

// One visit to one server: push a range of gradients, pull the same range of parameters. The lock
// lets one worker in at a time.
static void visit_server(Runner *r, Shelf *shelf, long *based_on) {
    Range keys = shelf->keys;
    float *params = r->run->params + keys.first, *mine = r->params->data + keys.first;
    const float *grads = r->grads->data + keys.first;
    mutex_lock(&shelf->lock);
    long stale = shelf->version - *based_on; // pushes of others since this worker's last visit
    for (long i = 0; i < keys.count; i++) params[i] -= r->run->scale * grads[i];
    memcpy(mine, params, (size_t)keys.count * sizeof *params);
    *based_on = ++shelf->version;
    mutex_unlock(&shelf->lock);
    staleness_add(&r->staleness, stale);
}

// The planted mistake: the worker lets others in before it has pulled the second half.
static void visit_carelessly(Runner *r, Shelf *shelf, long *based_on) {
    Range keys = shelf->keys;
    float *params = r->run->params + keys.first, *mine = r->params->data + keys.first;
    const float *grads = r->grads->data + keys.first;
    size_t half = (size_t)keys.count / 2, rest = (size_t)keys.count - half;
    mutex_lock(&shelf->lock);
    for (long i = 0; i < keys.count; i++) params[i] -= r->run->scale * grads[i];
    *based_on = ++shelf->version;
    memcpy(mine, params, half * sizeof *params);
    mutex_unlock(&shelf->lock);
    sleep_seconds(1e-3);
    mutex_lock(&shelf->lock);
    memcpy(mine + half, params + half, rest * sizeof *params);
    mutex_unlock(&shelf->lock);
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
    const AsyncOptions *options = r->run->options;
    int S = r->run->lesson->S;
    for (int turn = 0; turn < S; turn++) {
        int s = (r->number + turn) % S;
        Shelf *shelf = &r->run->shelves[s];
        (options->careless ? visit_carelessly : visit_server)(r, shelf, &r->based_on[s]);
        if (options->ones)
            r->torn += is_torn(r->params->data + shelf->keys.first, shelf->keys.count);
    }
    atomic_fetch_add(&r->pushed, 1);
}

// ## A worker's step

static void enqueue_gradients(Runner *r, int stage) {
    Device *device = r->worker.device;
    Tensor *X, *y;
    split_batch(r->X[stage], r->y[stage], &device, 1, &X, &y);
    r->read[stage] = device_record(device);
    worker_gradients(&r->worker, X, y);
    if (r->run->options->ones) tensor_fill(r->worker.grads, 1);
}

static void enqueue_step(Runner *r) {
    int stage = (int)(r->enqueued % STAGES);
    Device *device = r->worker.device;
    ps_load(r->run->lesson, r->enqueued, r->number, r->X[stage], r->y[stage]);
    begin_step(device);
    enqueue_gradients(r, stage);
    tensor_copy(r->grads, r->worker.grads);
    tensor_fill(r->worker.grads, 0);
    queue_call(compute_queue(device), push_and_pull, r);
    tensor_copy(r->worker.params, r->params);
    r->enqueued++;
    r->run->enqueued++;
}

static bool may_enqueue(const Runner *r) {
    return r->enqueued - atomic_load(&r->pushed) < STAGES &&
           event_reached(r->read[r->enqueued % STAGES]);
}

static void keep_queues_filled(Run *run) {
    int W = run->lesson->W;
    long all = run->options->clocks * W;
    while (run->enqueued < all && !interrupted()) {
        bool busy = false;
        for (int w = 0; w < W && run->enqueued < all; w++)
            if (may_enqueue(&run->runners[w])) {
                enqueue_step(&run->runners[w]);
                busy = true;
            }
        if (!busy) sleep_seconds(1e-4);
    }
    synchronize_all();
}

// ## All of it

static void open_runner(Run *run, int w) {
    const PsLesson *l = run->lesson;
    Runner *r = &run->runners[w];
    int n = (int)lenet_floats();
    r->run = run;
    r->number = w;
    r->worker = worker_new(try_gpu(w), l->seed);
    r->grads = tensor_new(host(), n);
    r->params = tensor_new(host(), n);
    if (l->start) tensor_write(r->worker.params, l->start);
    if (run->options->ones) tensor_fill(r->worker.params, 0);
    for (int i = 0; i < STAGES; i++) {
        r->X[i] = tensor_new(host(), ps_rows(l, w), 1, l->train_data->rows, l->train_data->cols);
        r->y[i] = tensor_new(host(), ps_rows(l, w));
    }
    if (run->options->slow && num_gpus() == 0)
        device_set_slowdown(r->worker.device, run->options->slow[w]);
}

static void close_runner(Runner *r) {
    if (r->run->options->slow && num_gpus() == 0) device_set_slowdown(r->worker.device, 1);
    worker_free(&r->worker);
    tensor_free(r->grads);
    tensor_free(r->params);
    for (int i = 0; i < STAGES; i++) {
        tensor_free(r->X[i]);
        tensor_free(r->y[i]);
    }
}

static void open_run(Run *run) {
    const PsLesson *l = run->lesson;
    Device *devices[MAX_COMPUTING];
    open_devices(devices, l->W);
    run->runners = xcalloc((size_t)l->W, sizeof *run->runners);
    run->scale = l->lr / (float)l->batch_size;
    for (int w = 0; w < l->W; w++) open_runner(run, w);
    run->params = tensor_values(run->runners[0].worker.params);
    for (int s = 0; s < l->S; s++)
        run->shelves[s].keys = equal_range((long)lenet_floats(), l->S, s);
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

static void add_result(AsyncResult *result, const Runner *r) {
    Staleness *all = &result->staleness;
    for (int t = 0; t <= MOST_STALE; t++) all->pushes[t] += r->staleness.pushes[t];
    all->count += r->staleness.count;
    all->sum += r->staleness.sum;
    if (r->staleness.most > all->most) all->most = r->staleness.most;
    result->pushes += atomic_load(&r->pushed);
    result->torn += r->torn;
}

AsyncResult async_run(const PsLesson *lesson, const AsyncOptions *options) {
    Run *run = xcalloc(1, sizeof *run);
    AsyncResult result = {.accuracy = NAN};
    *run = (Run){.lesson = lesson, .options = options};
    open_run(run);
    keep_queues_filled(run);
    for (int w = 0; w < lesson->W; w++) {
        add_result(&result, &run->runners[w]);
        close_runner(&run->runners[w]);
    }
    for (int s = 0; s < lesson->S; s++) result.applied[s] = run->shelves[s].version;
    result.pulls = result.pushes * lesson->S;
    if (lesson->test_data) result.accuracy = accuracy_of(run);
    result.params = run->params;
    free(run->runners);
    free(run);
    return result;
}

void async_result_free(AsyncResult *result) { free(result->params); }
