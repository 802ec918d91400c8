// replay.h: trains with parameter servers, event by event, following a schedule. The same
// lesson and schedule give the same bits on every computer with the same kernels.
#pragma once

#include "common/data/fashion_mnist.h"
#include "schedule.h"
#include "servers.h"

typedef struct PsLesson {
    const Dataset *train_data, *test_data;
    int W, S, batch_size; // batch_size: rows of a step, of all workers together
    float lr;             // of a whole minibatch: a push has the rate lr/W
    bool lr_by_staleness; // see Servers
    uint64_t seed;
    int points;         // how many times to measure the accuracy, evenly spaced in pushes
    const float *start; // lenet_floats() parameters to start from. NULL: lenet_init(seed)
} PsLesson;

int ps_rows(const PsLesson *lesson, int w); // of shard w of a minibatch
// Puts shard w of minibatch number `clock` into X and y on the host, in the order of the seed and
// the epoch. Rows at the end of an epoch that do not fill a minibatch are left out.
void ps_load(const PsLesson *lesson, long clock, int w, Tensor *X, Tensor *y);

// A worker with the rows of its step, on the host.
typedef struct Station {
    Worker worker;
    int number;
    Tensor *X, *y;
    Event loaded; // they have been read
} Station;
Station station_new(const PsLesson *lesson, int w); // for station_free()
void station_free(Station *station);
// Loads the worker's shard of minibatch number `clock`, and adds its gradients. Enqueued.
void station_compute(Station *station, const PsLesson *lesson, long clock);
// The test accuracy of a worker's parameters.
double ps_accuracy(const PsLesson *lesson, Worker *worker);

typedef struct PsPoint {
    long pushes; // applied
    double time; // modelled
    double accuracy;
} PsPoint;

typedef struct PsResult {
    int count;
    PsPoint *points; // the last one at the end
    long applied, dropped;
    double seconds; // modelled
    Staleness staleness;
    float *params; // at the end, lenet_floats() of them; not finite if the rate was too large
} PsResult;

// For ps_result_free(). It stops once interrupted().
PsResult ps_replay(const PsLesson *lesson, const Schedule *schedule);
void ps_result_free(PsResult *result);
