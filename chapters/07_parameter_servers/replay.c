// replay.c: carries out a schedule. Between its pull and its push, each worker computes on its own
// queue. What happens to the parameters depends only on the order of the events.
#include "replay.h"

#include "common/base/error.h"
#include "common/data/evaluate.h"
#include "common/program/interrupt.h"
#include "common/tensor/functional.h"
#include "common/tensor/random.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>

// ## The data
//
// Minibatch number c has the same images for all workers, and worker w gets shard w of it. So a
// fast worker at step 9 and a slow one at step 7 take shards of different minibatches. No image is
// used twice in an epoch. (In the code, the number of a step is called its *clock*, as in the
// papers.)

int ps_rows(const PsLesson *l, int w) { return (int)equal_range(l->batch_size, l->W, w).count; }

// The order of `count` images in an epoch. The latest order is kept, because the next step needs it
// again.
static const int *order_of(int count, uint64_t seed, long epoch) {
    static int *order;
    static struct {
        uint64_t seed;
        long epoch, count;
    } kept;
    if (count == kept.count && seed == kept.seed && epoch == kept.epoch) return order;
    order = xrealloc(order, sizeof *order * (size_t)count);
    random_order(order, count, seed, STREAM_SHUFFLE + (uint32_t)epoch);
    kept.seed = seed, kept.epoch = epoch, kept.count = count;
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

Station station_new(const PsLesson *l, int w) {
    const Dataset *d = l->train_data;
    Station s = {.worker = worker_new(try_gpu(w), l->seed), .number = w};
    s.X = tensor_new(host(), ps_rows(l, w), 1, d->rows, d->cols);
    s.y = tensor_new(host(), ps_rows(l, w));
    if (l->start) tensor_write(s.worker.params, l->start);
    return s;
}

void station_free(Station *s) {
    worker_free(&s->worker);
    tensor_free(s->X);
    tensor_free(s->y);
}

void station_compute(Station *s, const PsLesson *l, long clock) {
    Device *device = s->worker.device;
    Tensor *X, *y;
    event_synchronize(s->loaded); // the rows of the previous step have gone to the device
    ps_load(l, clock, s->number, s->X, s->y);
    begin_step(device);
    split_batch(s->X, s->y, &device, 1, &X, &y);
    s->loaded = device_record(device);
    worker_gradients(&s->worker, X, y);
}

typedef struct Floor {
    const PsLesson *lesson;
    Servers *servers;
    Station stations[MOST_WORKERS];
    Worker probe; // pulls the parameters to measure their accuracy
    PsResult result;
} Floor;

static void carry_out(Floor *f, const Happening *e) {
    Station *s = &f->stations[e->worker];
    if (e->kind == EVENT_PULL) {
        servers_pull(f->servers, &s->worker);
        station_compute(s, f->lesson, e->clock);
    }
    if (e->kind == EVENT_PUSH) servers_push(f->servers, e->worker, &s->worker);
    if (e->kind == EVENT_DROP) servers_drop(f->servers, &s->worker);
    f->result.seconds = e->time;
}

double ps_accuracy(const PsLesson *l, Worker *worker) {
    DataIter *test = data_iter_new(l->test_data, 256, false, 0);
    double accuracy = evaluate_accuracy_gpu(lenet, worker->list, test, worker->device);
    data_iter_free(test);
    return accuracy;
}

static void add_point(Floor *f) {
    PsResult *r = &f->result;
    servers_pull(f->servers, &f->probe);
    double accuracy = ps_accuracy(f->lesson, &f->probe);
    r->points = xgrow(r->points, (size_t)r->count + 1, sizeof *r->points);
    r->points[r->count++] = (PsPoint){f->servers->applied, r->seconds, accuracy};
}

PsResult ps_replay(const PsLesson *l, const Schedule *schedule) {
    Floor *f = xcalloc(1, sizeof *f);
    Device *devices[MAX_COMPUTING];
    open_devices(devices, l->W + l->S); // the workers, then the servers
    Servers *v = servers_new(devices + l->W, l->S, l->W, l->seed);
    v->per_update = in_rounds(schedule->how) ? l->W - schedule->how.backup : 1;
    v->batch_size = l->batch_size, v->lr = l->lr, v->lr_by_staleness = l->lr_by_staleness;
    for (int s = 0; s < l->S && l->start; s++)
        tensor_write(v->params[s], l->start + v->keys[s].first);
    *f = (Floor){.lesson = l, .servers = v};
    for (int w = 0; w < l->W; w++) f->stations[w] = station_new(l, w);
    f->probe = worker_new(try_gpu(0), l->seed);
    long all = schedule_events(schedule, EVENT_PUSH);
    for (int i = 0; i < schedule->count && !interrupted(); i++) {
        carry_out(f, &schedule->list[i]);
        long due = v->applied * l->points / all;
        while (f->result.count < due && f->result.count < l->points - 1) add_point(f);
    }
    if (!interrupted() && l->points > 0) add_point(f);
    servers_pull(v, &f->probe);
    f->result.applied = v->applied;
    f->result.dropped = v->dropped;
    f->result.staleness = v->staleness;
    f->result.params = tensor_values(f->probe.params);
    for (int w = 0; w < l->W; w++) station_free(&f->stations[w]);
    worker_free(&f->probe);
    servers_free(v);
    PsResult result = f->result;
    free(f);
    return result;
}

void ps_result_free(PsResult *r) {
    free(r->points);
    free(r->params);
}
