// real.c: asynchronous training, for real.
//
// Each worker's own queue does it all: compute, push, pull, compute, .. The servers are pieces of
// the host's memory, each with a lock. Push and pull are one call at the end of a step, made by
// whatever thread does the queue's work: so workers meet at the servers in the order in which they
// get there, which nobody knows before. The host only sees to it that no queue runs empty.
#include "real.h"

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

// ## The servers

typedef struct Shelf {
    Mutex lock;
    Range keys;
    long version; // pushes applied
} Shelf;

typedef struct Run Run;

enum { STAGES = 2 }; // steps that are enqueued at a worker: one is computed, the next waits

typedef struct Runner {
    Run *run;
    int number;
    Worker worker;
    Tensor *grads, *params;                  // on the host: what it pushes, and what it pulls
    Tensor *X[STAGES], *y[STAGES];           // on the host
    Event read[STAGES];                      // the rows have gone to the device
    long enqueued;                           // steps
    _Atomic long pushed;                     // steps that have been pushed
    _Atomic double last, longest;            // when; the most seconds between two of them
    long based_on[MOST_SERVERS];             // versions that it pulled
    long stale_sum, stale_most, stale_count; // of its pushes; read when all is done
    long torn;
    bool lost;
} Runner;

struct Run {
    const PsLesson *lesson;
    const RealOptions *options;
    float *params; // of all servers, one range behind the other
    Shelf shelves[MOST_SERVERS];
    Runner *runners;
    long enqueued; // steps of all workers
};

static bool is_torn(const float *values, long n) {
    for (long i = 1; i < n; i++)
        if (values[i] != values[0]) return true;
    return false;
}

// At one server: whole ranges only, under its lock.
static void visit_server(Runner *r, int s) {
    Run *run = r->run;
    Shelf *shelf = &run->shelves[s];
    float *params = run->params + shelf->keys.first, *mine = r->params->data + shelf->keys.first;
    const float *grads = r->grads->data + shelf->keys.first;
    float scale = run->lesson->lr / (float)run->lesson->batch_size;
    mutex_lock(&shelf->lock);
    long stale = shelf->version - r->based_on[s];
    for (long i = 0; i < shelf->keys.count; i++) params[i] -= scale * grads[i];
    memcpy(mine, params, (size_t)shelf->keys.count * sizeof *params);
    r->based_on[s] = ++shelf->version;
    mutex_unlock(&shelf->lock);
    if (run->options->ones) r->torn += is_torn(mine, shelf->keys.count);
    r->stale_sum += stale;
    r->stale_count++;
    if (stale > r->stale_most) r->stale_most = stale;
}

// The queue calls this when the gradients have come to the host's memory.
static void push_and_pull(void *context) {
    Runner *r = context;
    int S = r->run->lesson->S;
    for (int turn = 0; turn < S; turn++) visit_server(r, (r->number + turn) % S);
    double now = seconds_now(), step = now - atomic_load(&r->last);
    if (step > atomic_load(&r->longest)) atomic_store(&r->longest, step);
    atomic_store(&r->last, now);
    atomic_fetch_add(&r->pushed, 1);
}

// ## A worker's step, enqueued

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

static bool is_dead(const Runner *r) {
    const RealOptions *o = r->run->options;
    return r->number == o->dies && r->enqueued >= o->at;
}

static bool all_enqueued(const Run *run) {
    return run->enqueued >= run->options->clocks * run->lesson->W;
}

static bool may_enqueue(const Runner *r) {
    return !all_enqueued(r->run) && !r->lost && !is_dead(r) &&
           r->enqueued - atomic_load(&r->pushed) < STAGES &&
           event_reached(r->read[r->enqueued % STAGES]);
}

// Whether there is something to wait for: a step to be enqueued, or a push of a worker that has
// died, of which the host cannot know.
static bool is_awaited(const Runner *r) {
    return !r->lost && (is_dead(r) || !all_enqueued(r->run));
}

// ## The host's part

// How long a worker may be silent. What is long depends on the computer, on what else it does, and
// on the minibatch: so the longest step so far says it.
static double patience(const Run *run, int w) {
    const RealOptions *o = run->options;
    double longest = 0;
    for (int v = 0; v < run->lesson->W; v++)
        longest = fmax(longest, atomic_load(&run->runners[v].longest));
    if (longest == 0) return 30 * o->timeout;
    return fmax(o->timeout, 5 * longest * (o->slow ? o->slow[w] : 1));
}

// A worker that has pushed nothing for so long is given up; the others go on.
static void look_for_lost(Run *run, RealResult *result) {
    double now = seconds_now();
    for (int w = 0; w < run->lesson->W; w++) {
        Runner *r = &run->runners[w];
        double silent = now - atomic_load(&r->last);
        if (!is_awaited(r) || silent <= patience(run, w)) continue;
        r->lost = true;
        result->lost_worker = w;
        result->noticed = silent;
    }
}

static void keep_queues_filled(Run *run, RealResult *result) {
    bool left = true;
    while (left && !interrupted()) {
        bool busy = false;
        left = false;
        for (int w = 0; w < run->lesson->W; w++) {
            Runner *r = &run->runners[w];
            left = left || is_awaited(r);
            if (!may_enqueue(r)) continue;
            enqueue_step(r);
            busy = true;
        }
        look_for_lost(run, result);
        if (!busy) sleep_seconds(1e-4);
    }
    synchronize_all();
}

// ## Opening and closing

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
    for (int w = 0; w < l->W; w++) open_runner(run, w);
    run->params = tensor_values(run->runners[0].worker.params);
    for (int s = 0; s < l->S; s++)
        run->shelves[s].keys = equal_range((long)lenet_floats(), l->S, s);
    for (int w = 0; w < l->W; w++) atomic_store(&run->runners[w].last, seconds_now());
}

static void close_run(Run *run) {
    for (int w = 0; w < run->lesson->W; w++) close_runner(&run->runners[w]);
    free(run->runners);
}

static void check_numbers(const Run *run) {
    for (size_t i = 0; i < lenet_floats(); i++)
        if (!isfinite(run->params[i]))
            die("start again with a smaller --lr",
                "parameter %zu of LeNet is not a number any more after the asynchronous training",
                i);
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

static void add_up(const Run *run, RealResult *result) {
    long stale = 0, count = 0;
    for (int w = 0; w < run->lesson->W; w++) {
        const Runner *r = &run->runners[w];
        result->pushes += atomic_load(&r->pushed);
        result->torn += r->torn;
        stale += r->stale_sum;
        count += r->stale_count;
        if (r->stale_most > result->most_staleness) result->most_staleness = r->stale_most;
    }
    for (int s = 0; s < run->lesson->S; s++) result->applied[s] = run->shelves[s].version;
    result->mean_staleness = count > 0 ? (double)stale / (double)count : 0;
}

RealResult real_run(const PsLesson *lesson, const RealOptions *options) {
    Run *run = xcalloc(1, sizeof *run);
    RealResult result = {.lost_worker = -1, .accuracy = NAN};
    *run = (Run){.lesson = lesson, .options = options};
    open_run(run);
    double begin = seconds_now();
    keep_queues_filled(run, &result);
    result.seconds = seconds_now() - begin;
    add_up(run, &result);
    check_numbers(run);
    if (lesson->test_data) result.accuracy = accuracy_of(run);
    result.params = run->params;
    close_run(run);
    free(run);
    return result;
}

void real_result_free(RealResult *result) { free(result->params); }
