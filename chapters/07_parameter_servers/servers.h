// servers.h: parameter servers: devices that hold the parameters, each a range of them, and update
// them with what workers push. Source: [@li2014].
#ifndef SERVERS_H
#define SERVERS_H

#include "common/base/range.h"
#include "worker.h"

#include <limits.h>

enum { MOST_SERVERS = 64, MOST_WORKERS = 64, MOST_STALE = 256 };

// What a worker has pushed and no server has applied yet.
typedef struct Push {
    bool waits;    // to be applied
    long clock;    // the number of the worker's step that it comes from
    int rows;      // the whole minibatch of that step: gradients are divided by it
    long based_on; // pushes that had been applied when the worker pulled its parameters
} Push;

typedef struct Servers {
    int S, W;
    Device *devices[MOST_SERVERS];
    Range keys[MOST_SERVERS];                         // server s has these floats
    Tensor *params[MOST_SERVERS], *sum[MOST_SERVERS]; // of its range; sum: gradients, at first 0
    Tensor *received[MOST_SERVERS][MOST_WORKERS];     // a place for each worker's push
    Push pushes[MOST_WORKERS];
    long applied, dropped; // pushes, so far
    // Staleness of a push: so many others were applied since its worker pulled. How many had which
    // (the last one: so many or more), the sum of all, and the greatest.
    long staleness[MOST_STALE + 1], stale_sum, stale_most;
    float lr;
    bool lr_by_staleness; // a push with staleness t > 1 counts 1/t
} Servers;

// The parameters of lenet_init(seed), on S servers for W workers, server s having equal_range(n, S,
// s). Servers and workers may share devices. For servers_free().
Servers *servers_new(Device *const devices[], int S, int W, uint64_t seed, float lr);
void servers_free(Servers *servers);
// Other parameters to start from, lenet_floats() of them.
void servers_start_from(Servers *servers, const float *params);

// Worker w sends its gradients, a range to each server; they are then zero at the worker. They wait
// at the servers until somebody pulls. Enqueued.
void servers_push(Servers *servers, int w, Worker *worker, Push push);
// The same, but thrown away: the worker's gradients are zero, nothing moves.
void servers_drop(Servers *servers, Worker *worker);
// servers_apply(): what was pushed is applied, if it is of a step before this one, in the order of
// steps, and of workers within a step: gradients of one step are summed first, as by chapter 2's
// star. servers_pull(): the worker gets all parameters. Enqueued.
#define ALL_CLOCKS LONG_MAX
void servers_apply(Servers *servers, long before);
void servers_pull(Servers *servers, Worker *worker);

// Synchronous: all W workers push, everything is applied, and all pull. `rows`: of the whole
// minibatch. Everybody begins with another server, so that all links have something to do.
void servers_exchange(Servers *servers, Worker workers[], int rows);

// Bytes that a worker, and server s, sends and receives for one push and one pull, by the formulas.
size_t worker_bytes_per_step(void);
size_t server_bytes_per_step(const Servers *servers, int s);
// The same of a device that is worker i and server i, with as many servers as workers.
size_t shared_bytes_per_step(const Servers *servers, int i);

#endif
