// real.h: asynchronous training without a schedule: each worker pushes and pulls when it happens to
// be ready. Not repeatable, and that is the point.
#ifndef REAL_H
#define REAL_H

#include "replay.h"

typedef struct RealOptions {
    long clocks;        // it ends after W times as many pushes, whoever makes them
    const double *slow; // [W]: so many times slower (CPU devices); NULL: all as fast as they are
    int dies;           // this worker never pushes its step number `at`, from 0; -1: none
    long at;
    // Seconds after which a worker that does not push is given up. If steps turn out to take long,
    // it has more: 5 times the longest step so far (but for its own `slow`), and as long as nobody
    // has made one, 30 times the timeout.
    double timeout;
    bool ones; // every gradient is 1: for the test of what must hold in any order
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

// For real_result_free(). Once interrupted() it stops. die()s if it comes to numbers that are none.
RealResult real_run(const PsLesson *lesson, const RealOptions *options);
void real_result_free(RealResult *result);

#endif
