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
#include "chapters/03_split_batch/split_batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ## The data
//
// Minibatch number c is the same images whoever asks, and worker w has shard w of it. So a fast
// worker that is at step 9 and a slow one at step 7 take shards of different minibatches, and no
// image twice. (In the code the number of a step is called its *clock*, as in the papers.)

int ps_rows(const PsLesson *l, int w) { return (int)equal_range(l->batch_size, l->W, w).count; }

// The order of so many images in an epoch. The last one is kept, as the next step asks for it, too.
static const int *order_of(int count, uint64_t seed, long epoch) {
    static int *order, kept_count;
    static uint64_t kept_seed;
    static long kept_epoch;
    if (count == kept_count && seed == kept_seed && epoch == kept_epoch) return order;
    order = xrealloc(order, sizeof *order * (size_t)count);
    random_order(order, count, seed, STREAM_SHUFFLE + (uint32_t)epoch);
    kept_count = count;
    kept_seed = seed;
    kept_epoch = epoch;
    return order;
}

void ps_load(const PsLesson *l, long clock, int w, Tensor *X, Tensor *y) {
    const Dataset *data = l->train_data;
    long per_epoch = data->count / l->batch_size, epoch = clock / per_epoch;
    size_t pixels = (size_t)(data->rows * data->cols);
    Range rows = equal_range(l->batch_size, l->W, w);
    const int *order = order_of(data->count, l->seed, epoch);
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
    long based_on; // pushes that had been applied when it pulled
} Station;

typedef struct Floor {
    const PsLesson *lesson;
    Servers *servers;
    Station *stations;
    Worker probe; // its parameters are those that are looked at
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
    Tensor *X, *y;
    split_batch(s->X, s->y, &device, 1, &X, &y);
    s->loaded = device_record(device);
    worker_gradients(&s->worker, X, y);
}

// A push is divided by the rows of the whole minibatch, also if a backup worker's part of it is
// dropped: an image that is learned from counts as much in every discipline.
static void push(Floor *f, const Happening *e) {
    Station *s = &f->stations[e->worker];
    Push push = {.clock = e->clock, .rows = f->lesson->batch_size, .based_on = s->based_on};
    servers_push(f->servers, e->worker, &s->worker, push);
}

// ## The accuracy of what the servers hold
//
// To look must not change anything: what was pushed and not applied yet stays so.

// All that the servers hold; free() it. A learning rate that is too large ends in numbers that are
// none, and what is once NaN stays so: so it is found here, whenever it came.
static float *params_now(Floor *f, double time) {
    servers_pull(f->servers, &f->probe);
    float *params = tensor_values(f->probe.params);
    for (size_t i = 0; i < lenet_floats(); i++)
        if (!isfinite(params[i]) && !f->lesson->may_diverge)
            die("start again with a smaller --lr",
                "parameter %zu of LeNet is not a number any more after %ld pushes, %.3g s "
                "(modelled)",
                i, f->servers->applied, time);
    return params;
}

static void add_point(Floor *f, double time) {
    PsResult *r = &f->result;
    r->points = xgrow(r->points, (size_t)r->count + 1, sizeof *r->points);
    free(params_now(f, time));
    double accuracy = evaluate_accuracy_gpu(lenet, f->probe.list, f->test, f->probe.device);
    r->points[r->count++] = (PsPoint){f->servers->applied, time, accuracy};
}

// So many that there are `due`; but the last one comes at the end.
static void add_points(Floor *f, long due, double time) {
    while (f->result.count < due && f->result.count < f->lesson->points - 1) add_point(f, time);
}

// ## All of it

static void carry_out(Floor *f, const Schedule *schedule, const Happening *e) {
    switch (e->kind) {
    case EVENT_PULL:
        pull(f, schedule, e);
        break;
    case EVENT_PUSH:
        push(f, e);
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
    memcpy(r->staleness, v->staleness, sizeof r->staleness);
    r->most_staleness = v->stale_most;
    r->mean_staleness = v->applied > 0 ? (double)v->stale_sum / (double)v->applied : 0;
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
    if (l->start) servers_start_from(f->servers, l->start);
    f->stations = xcalloc((size_t)l->W, sizeof *f->stations);
    for (int w = 0; w < l->W; w++) f->stations[w] = station_new(l, w);
    f->probe = worker_new(try_gpu(0), l->seed);
    f->test = data_iter_new(l->test_data, 256, false, 0);
    f->result.lost_worker = -1;
}

static void close_floor(Floor *f) {
    synchronize_all();
    for (int w = 0; w < f->lesson->W; w++) station_free(&f->stations[w]);
    free(f->stations);
    worker_free(&f->probe);
    servers_free(f->servers);
    data_iter_free(f->test);
}

static long pushes_in(const Schedule *schedule) {
    long pushes = 0;
    for (int i = 0; i < schedule->count; i++) pushes += schedule->list[i].kind == EVENT_PUSH;
    return pushes;
}

PsResult ps_replay(const PsLesson *l, const Schedule *schedule) {
    Floor *f = xcalloc(1, sizeof *f);
    open_floor(f, l);
    long all = pushes_in(schedule);
    for (int i = 0; i < schedule->count && !interrupted(); i++) {
        const Happening *e = &schedule->list[i];
        carry_out(f, schedule, e);
        add_points(f, f->servers->applied * l->points / all, e->time);
    }
    servers_apply(f->servers, ALL_CLOCKS);
    if (!interrupted() && l->points > 0) add_point(f, f->result.seconds);
    note_staleness(f);
    f->result.n = lenet_floats();
    f->result.params = params_now(f, f->result.seconds);
    close_floor(f);
    PsResult result = f->result;
    free(f);
    return result;
}

void ps_result_free(PsResult *r) {
    free(r->points);
    free(r->params);
}
