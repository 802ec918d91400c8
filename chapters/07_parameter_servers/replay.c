// replay.c: a schedule, carried out.
//
// The schedule says who pulls and who pushes, and in which order. Between its pull and its push
// each worker computes on its own queue, beside the others. What the events do to the parameters
// depends on their order alone: so the same schedule gives the same bits, however fast the computer
// is.
#include "replay.h"

#include "common/base/error.h"
#include "common/data/evaluate.h"
#include "common/program/interrupt.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## The data
//
// Minibatch number c is the same images whoever asks, and worker w has shard w of it. So a fast
// worker that is at step 9 and a slow one at step 7 take shards of different minibatches, and no
// image twice.

int ps_rows(const PsLesson *l, int w) { return (int)equal_range(l->batch_size, l->W, w).count; }

void ps_load(const PsLesson *l, long clock, int w, Tensor *X, Tensor *y) {
    static int *order;
    static long ordered = -1; // the epoch that it is of
    static const Dataset *of;
    static uint64_t seed;
    const Dataset *data = l->train_data;
    long per_epoch = data->count / l->batch_size, epoch = clock / per_epoch;
    size_t pixels = (size_t)(data->rows * data->cols);
    Range rows = equal_range(l->batch_size, l->W, w);
    if (epoch != ordered || of != data || seed != l->seed) {
        order = xrealloc(order, sizeof *order * (size_t)data->count);
        random_order(order, data->count, l->seed, STREAM_SHUFFLE + (uint32_t)epoch);
        ordered = epoch;
        of = data;
        seed = l->seed;
    }
    for (long r = 0; r < rows.count; r++) {
        int image = order[(clock % per_epoch) * l->batch_size + rows.first + r];
        const uint8_t *from = data->images + (size_t)image * pixels;
        for (size_t p = 0; p < pixels; p++) X->data[(size_t)r * pixels + p] = from[p] / 255.0f;
        y->data[r] = data->labels[image];
    }
}

// ## A worker at work

typedef struct Station {
    Worker worker;
    Tensor *X, *y; // on the host: its rows of the step
    Event loaded;  // they have been read
    Tensor *loss;
    long based_on;
} Station;

typedef struct Floor {
    const PsLesson *lesson;
    Servers *servers;
    Station *stations;
    DataIter *test;
    PsResult result;
} Floor;

static Station station_new(const PsLesson *l, int w) {
    const Dataset *d = l->train_data;
    return (Station){.worker = worker_new(try_gpu(w), l->seed),
                     .X = tensor_new(host(), ps_rows(l, w), 1, d->rows, d->cols),
                     .y = tensor_new(host(), ps_rows(l, w))};
}

static void station_free(Station *s) {
    worker_free(&s->worker);
    tensor_free(s->X);
    tensor_free(s->y);
}

// Everything that was pushed by now is applied, the worker gets it, and begins to compute. In
// rounds everything but the pushes of the round itself: somebody may have pulled, computed and
// pushed while others still waited for the servers' links, and all are to begin with the same
// parameters.
static void pull(Floor *f, const Schedule *schedule, const Happening *e) {
    Station *s = &f->stations[e->worker];
    Device *device = s->worker.device;
    servers_apply(f->servers, in_rounds(schedule->how) ? e->clock : ALL_CLOCKS);
    servers_pull(f->servers, &s->worker);
    s->based_on = f->servers->applied;
    event_synchronize(s->loaded); // the rows of the step before have gone to the device
    ps_load(f->lesson, e->clock, e->worker, s->X, s->y);
    begin_step(device);
    Tensor *X = arena_tensor(device, s->X->ndim, s->X->shape, false);
    Tensor *y = arena_tensor(device, s->y->ndim, s->y->shape, false);
    tensor_copy(X, s->X);
    tensor_copy(y, s->y);
    s->loaded = device_record(device);
    s->loss = worker_gradients(&s->worker, X, y);
}

// Rows that a push's gradient is divided by: those of the pushes that make up a step.
static int rows_of_step(const Floor *f, const Schedule *schedule) {
    const PsLesson *l = f->lesson;
    int backup = schedule->how.backup;
    return backup > 0 ? l->batch_size / l->W * (l->W - backup) : l->batch_size;
}

static void push(Floor *f, const Schedule *schedule, const Happening *e) {
    Station *s = &f->stations[e->worker];
    servers_push(
        f->servers, e->worker, &s->worker,
        (Push){.clock = e->clock, .rows = rows_of_step(f, schedule), .based_on = s->based_on});
}

// ## The accuracy of what the servers hold
//
// To look must not change anything: what was pushed and not applied yet stays so.

static double accuracy_now(Floor *f) {
    Worker probe = worker_new(try_gpu(0), f->lesson->seed);
    servers_pull(f->servers, &probe);
    double accuracy = evaluate_accuracy_gpu(lenet, probe.list, f->test, probe.device);
    worker_free(&probe);
    return accuracy;
}

static void add_point(Floor *f, double time) {
    PsResult *r = &f->result;
    r->points = xgrow(r->points, (size_t)r->count + 1, sizeof *r->points);
    double accuracy = accuracy_now(f);
    r->points[r->count++] = (PsPoint){f->servers->applied, time, accuracy};
}

// ## All of it

static void check_loss(const Station *s, const Happening *e) {
    if (!isfinite(item(s->loss)))
        die("start again with a smaller --lr",
            "the loss of worker %d in its step %ld is not a number", e->worker, e->clock);
}

static void carry_out(Floor *f, const Schedule *schedule, const Happening *e) {
    switch (e->kind) {
    case EVENT_PULL:
        pull(f, schedule, e);
        break;
    case EVENT_PUSH:
        push(f, schedule, e);
        break;
    case EVENT_DROP:
        servers_drop(f->servers, &f->stations[e->worker].worker);
        break;
    case EVENT_LOST:
        f->result.lost_worker = e->worker;
        f->result.lost_clock = e->clock;
        break;
    }
    f->result.seconds = e->time;
}

static void note_staleness(Floor *f) {
    const Servers *v = f->servers;
    PsResult *r = &f->result;
    double sum = 0;
    memcpy(r->staleness, v->staleness, sizeof r->staleness);
    for (int t = 0; t <= MOST_STALE; t++) {
        sum += (double)t * (double)v->staleness[t];
        if (v->staleness[t] > 0) r->most_staleness = t;
    }
    r->mean_staleness = v->applied > 0 ? sum / (double)v->applied : 0;
    r->applied = v->applied;
    r->dropped = v->dropped;
}

static void open_floor(Floor *f, const PsLesson *l) {
    Device *devices[MAX_COMPUTING];
    int k = l->W + l->S;
    open_devices(devices, k); // the workers, then the servers
    f->lesson = l;
    f->servers = servers_new(devices + l->W, l->S, l->W, l->seed, l->lr);
    f->servers->lr_by_staleness = l->lr_by_staleness;
    f->stations = xcalloc((size_t)l->W, sizeof *f->stations);
    for (int w = 0; w < l->W; w++) f->stations[w] = station_new(l, w);
    f->test = data_iter_new(l->test_data, 256, false, 0);
    f->result.lost_worker = -1;
}

static void close_floor(Floor *f) {
    synchronize_all();
    for (int w = 0; w < f->lesson->W; w++) station_free(&f->stations[w]);
    free(f->stations);
    servers_free(f->servers);
    data_iter_free(f->test);
}

PsResult ps_replay(const PsLesson *l, const Schedule *schedule) {
    Floor *f = xcalloc(1, sizeof *f);
    open_floor(f, l);
    int every = l->points > 0 ? (schedule->count + l->points - 1) / l->points : schedule->count + 1;
    for (int i = 0; i < schedule->count && !interrupted(); i++) {
        const Happening *e = &schedule->list[i];
        carry_out(f, schedule, e);
        if ((i + 1) % every != 0 && i + 1 < schedule->count) continue;
        if (e->kind == EVENT_PUSH) check_loss(&f->stations[e->worker], e);
        if (l->points > 0) add_point(f, e->time);
    }
    servers_apply(f->servers, ALL_CLOCKS);
    note_staleness(f);
    Worker last = worker_new(try_gpu(0), l->seed);
    servers_pull(f->servers, &last);
    f->result.n = lenet_floats();
    f->result.params = tensor_values(last.params);
    worker_free(&last);
    close_floor(f);
    PsResult result = f->result;
    free(f);
    return result;
}

void ps_result_free(PsResult *r) {
    free(r->points);
    free(r->params);
}
