// real.h: asynchronous training without a schedule: each worker pushes and pulls when it happens to
// be ready. Not repeatable, and that is the point.
#ifndef REAL_H
#define REAL_H

#include "replay.h"

typedef struct RealOptions {
    long clocks;        // steps of each worker
    const double *slow; // [W]: so many times slower (CPU devices); NULL: all as fast as they are
    int dies;           // this worker never pushes its step number `at`, from 0; -1: none
    long at;
    double timeout; // seconds after which a worker that does not push is given up
    bool ones;      // every gradient is 1: for the test of what must hold in any order
} RealOptions;

typedef struct RealResult {
    long pushes;                // by the workers,
    long applied[MOST_SERVERS]; // and at each server
    long torn; // pulls that got a range in which an update was half made (`ones` only)
    double mean_staleness;
    long most_staleness;
    double accuracy, seconds; // measured
    int lost_worker;          // -1: none
    double noticed;           // seconds after its last pull
    float *params;            // at the end, lenet_floats() of them
} RealResult;

// For real_result_free(). Once interrupted() it stops.
RealResult real_run(const PsLesson *lesson, const RealOptions *options);
void real_result_free(RealResult *result);

#endif
