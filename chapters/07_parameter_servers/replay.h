// replay.h: a training with parameter servers, event by event as a schedule has them, with values.
#ifndef REPLAY_H
#define REPLAY_H

#include "common/data/fashion_mnist.h"
#include "schedule.h"
#include "servers.h"

typedef struct PsLesson {
    const Dataset *train_data, *test_data;
    int W, S, batch_size; // batch_size: of all workers together in one step
    float lr;
    bool lr_by_staleness;
    uint64_t seed;
    bool may_diverge;   // then numbers that are none are a result, not an error
    int points;         // so often the accuracy is taken, when as many pushes more were applied
    const float *start; // lenet_floats() parameters to start from; NULL: lenet_init(seed)'s
} PsLesson;

// How many rows shard w of a minibatch has; and those of minibatch number `clock`, put into X and y
// on the host. All workers take from one order of the images, another one in each epoch, by the
// seed. Rows that do not fill a minibatch at the end of an epoch are left out.
int ps_rows(const PsLesson *lesson, int w);
void ps_load(const PsLesson *lesson, long clock, int w, Tensor *X, Tensor *y);

typedef struct PsPoint {
    long pushes; // applied
    double time; // modelled
    double accuracy;
} PsPoint;

typedef struct PsResult {
    int count;
    PsPoint *points;
    long applied, dropped, lost_worker, lost_clock; // lost_worker: the last one, -1: none
    double seconds;                                 // modelled, of all
    double mean_staleness;
    long most_staleness, staleness[MOST_STALE + 1];
    float *params; // at the end
    size_t n;
} PsResult;

// For ps_result_free(). Once interrupted() it stops. die()s if it comes to numbers that are none:
// the learning rate is too large.
PsResult ps_replay(const PsLesson *lesson, const Schedule *schedule);
void ps_result_free(PsResult *result);

#endif
