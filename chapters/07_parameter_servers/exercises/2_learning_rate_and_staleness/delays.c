// delays.c: see delays.h.
#include "delays.h"

#include "common/base/error.h"
#include "common/program/interrupt.h"
#include "chapters/03_split_batch/split_batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void add_as_is(Tensor *sum, Tensor *push, long staleness) {
    (void)staleness;
    launch(sum->device, add, .y = sum->data, .x = push->data, .n = numel(push));
}

Schedule schedule_in_turns(int W, long pushes) {
    double slow[MOST_WORKERS];
    for (int w = 0; w < W; w++) slow[w] = 1;
    Pace pace = {.W = W, .compute = 1, .slow = slow, .timeout = INFINITY, .dies = -1};
    CHECK(pushes % W == 0, "as many pushes of each worker");
    return schedule_make(&pace, (Discipline){.staleness = NO_BOUND}, pushes / W);
}

// ## One server, and workers that take turns on its device

typedef struct Desk {
    Worker worker; // its gradients are its push, until they are applied
    bool waits;
    long clock, based_on;
    double loss;
} Desk;

typedef struct Office {
    const PsLesson *lesson;
    AddPush *how;
    Device *device;
    Tensor *params, *sum, *X, *y;
    Desk desks[MOST_WORKERS];
    long applied;
    DelayedResult result;
} Office;

static Office *office_new(const PsLesson *l, AddPush *how, const float *start) {
    Office *o = xcalloc(1, sizeof *o);
    int n = (int)lenet_floats();
    *o = (Office){.lesson = l, .how = how, .device = try_gpu(0)};
    CHECK(l->batch_size % l->W == 0, "shards of one size");
    for (int w = 0; w < l->W; w++) o->desks[w].worker = worker_new(o->device, l->seed);
    o->params = tensor_new(o->device, n);
    o->sum = tensor_new(o->device, n);
    tensor_fill(o->sum, 0);
    tensor_copy(o->params, o->desks[0].worker.params);
    if (start) device_copy(o->device, o->params->data, host(), start, tensor_bytes(o->params));
    o->X = tensor_new(host(), ps_rows(l, 0), 1, l->train_data->rows, l->train_data->cols);
    o->y = tensor_new(host(), ps_rows(l, 0));
    synchronize_all();
    return o;
}

static void office_free(Office *o) {
    synchronize_all();
    for (int w = 0; w < o->lesson->W; w++) worker_free(&o->desks[w].worker);
    tensor_free(o->params);
    tensor_free(o->sum);
    tensor_free(o->X);
    tensor_free(o->y);
    free(o);
}

// All pushes of this clock, in the order of workers; they are no staler for each other.
static void apply_clock(Office *o, long clock) {
    long before = o->applied;
    for (int w = 0; w < o->lesson->W; w++) {
        Desk *d = &o->desks[w];
        if (!d->waits || d->clock != clock) continue;
        long stale = before - d->based_on;
        o->how(o->sum, d->worker.grads, stale);
        tensor_fill(d->worker.grads, 0);
        o->result.staleness[stale < MOST_STALE ? stale : MOST_STALE]++;
        d->waits = false;
        o->applied++;
    }
    launch(o->device, sgd, .param = o->params->data, .grad = o->sum->data, .lr = o->lesson->lr,
           .batch_size = o->lesson->batch_size, .n = numel(o->sum));
}

static void apply_all(Office *o) {
    for (;;) {
        long oldest = -1;
        for (int w = 0; w < o->lesson->W; w++)
            if (o->desks[w].waits && (oldest < 0 || o->desks[w].clock < oldest))
                oldest = o->desks[w].clock;
        if (oldest < 0) return;
        apply_clock(o, oldest);
    }
}

static void pull_and_compute(Office *o, const Happening *e) {
    Desk *d = &o->desks[e->worker];
    apply_all(o);
    tensor_copy(d->worker.params, o->params);
    d->based_on = o->applied;
    d->clock = e->clock;
    ps_load(o->lesson, e->clock, e->worker, o->X, o->y);
    begin_step(o->device);
    Tensor *X, *y;
    split_batch(o->X, o->y, &o->device, 1, &X, &y);
    d->loss = item(worker_gradients(&d->worker, X, y)) / o->X->shape[0];
}

// An image's loss is ln 10 for who knows nothing; there is no way back from so much.
static bool is_lost(double loss) { return !(loss < 100); }

DelayedResult train_delayed(const PsLesson *l, const Schedule *s, AddPush *how,
                            const float *start) {
    Office *o = office_new(l, how, start);
    long all = s->count / 2, pushes = 0, counted = 0; // each push was pulled for
    for (int i = 0; i < s->count && !interrupted(); i++) {
        Desk *d = &o->desks[s->list[i].worker];
        if (s->list[i].kind == EVENT_PULL) {
            pull_and_compute(o, &s->list[i]);
            if (is_lost(d->loss)) o->result.loss = INFINITY;
            if (is_lost(d->loss)) break;
            continue;
        }
        d->waits = true;
        if (++pushes <= all - all / 4) continue;
        o->result.loss += d->loss;
        counted++;
    }
    if (counted > 0) o->result.loss /= (double)counted;
    apply_all(o);
    o->result.params = tensor_values(o->params);
    DelayedResult result = o->result;
    office_free(o);
    return result;
}
