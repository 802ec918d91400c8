// asynchronous.h: asynchronous training without a schedule, so no two runs are the same.
#pragma once

#include "replay.h"

typedef struct AsyncOptions {
    long clocks;        // training ends after W times this many pushes, from any workers
    const double *slow; // [W]: this many times slower (CPU devices). NULL: as fast as they are
    int ones; // not 0: every gradient is 1, and the pulls from this many servers are compared
} AsyncOptions;

typedef struct AsyncResult {
    long pushes, torn;   // torn: pulls with a part of a push (`ones` only)
    Staleness staleness; // at server 0
    double accuracy;     // NAN without test data
    float *params;       // at the end, lenet_floats() of them
} AsyncResult;

// For async_result_free(). It stops once interrupted().
AsyncResult async_run(const PsLesson *lesson, const AsyncOptions *options);
void async_result_free(AsyncResult *result);
