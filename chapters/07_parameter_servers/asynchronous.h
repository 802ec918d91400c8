// asynchronous.h: asynchronous training without a schedule. Workers push and pull whenever they are
// ready, so no two runs are the same.
#ifndef ASYNCHRONOUS_H
#define ASYNCHRONOUS_H

#include "replay.h"

typedef struct AsyncOptions {
    long clocks;        // training ends after W times this many pushes, whoever makes them
    const double *slow; // [W]: this many times slower (CPU devices). NULL: as fast as they are
    bool ones;          // every gradient is 1, to check what must hold in any order
    bool careless;      // a planted mistake: a visit releases the lock in the middle of its pull
} AsyncOptions;

typedef struct AsyncResult {
    long pushes;                // by the workers,
    long applied[MOST_SERVERS]; // and at each server
    long pulls, torn;           // at all servers; torn: with half an update (`ones` only)
    Staleness staleness;
    double accuracy; // NAN without test data
    float *params;   // at the end, lenet_floats() of them
} AsyncResult;

// For async_result_free(). It stops once interrupted().
AsyncResult async_run(const PsLesson *lesson, const AsyncOptions *options);
void async_result_free(AsyncResult *result);

#endif
