// time_by.h: the devices, what they work on, and how long that takes.
#pragma once

#include "common/tensor/tensor.h"

enum { PRODUCTS = 4 };

typedef struct Job {
    int k;
    Device *devices[MAX_DEVICES];
    Tensor *X[MAX_DEVICES];    // on each device a matrix of SIDE x SIDE, filled with 1 / SIDE
    Event done[MAX_DEVICES];   // the end of each device's products
    Tensor *on_host[PRODUCTS]; // where device 0's products can be copied to
} Job;

typedef void Enqueue(Job *job); // some work
typedef double Clock(void);     // seconds

// Seconds until the host had enqueued everything, and until that was done.
typedef struct Times {
    double enqueued, done;
} Times;

// Times what the host enqueues. Results of earlier work are then gone.
Times time_by(Clock *now, Enqueue *enqueue, Job *job);
