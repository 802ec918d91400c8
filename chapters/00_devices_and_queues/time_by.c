// time_by.c: see time_by.h.
#include "time_by.h"

#include "common/tensor/autograd.h"

Times time_by(Clock *now, Enqueue *enqueue, Job *job) {
    for (int i = 0; i < job->k; i++)
        begin_step(job->devices[i]); // the results' memory is free again
    synchronize_all();
    double start = now();
    enqueue(job);
    double enqueued = now() - start;
    synchronize_all();
    return (Times){enqueued, now() - start};
}
