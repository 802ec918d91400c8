// servers.h: parameter servers, devices that each hold a range of the parameters and update it with
// the gradients that workers push. Source: [@li2014].
#pragma once

#include "common/base/range.h"
#include "schedule.h"
#include "worker.h"

enum { MOST_SERVERS = 64, MOST_STALE = 256 };

// pushes[t]: how many pushes missed t others (the last: t or more). Then the number, sum and
// maximum of all.
typedef struct Staleness {
    long pushes[MOST_STALE + 1], count, sum, most;
} Staleness;
void staleness_add(Staleness *staleness, long stale);
double staleness_mean(const Staleness *staleness); // 0 without pushes

typedef struct Servers {
    int S, W; // servers and workers
    Device *devices[MOST_SERVERS];
    Range keys[MOST_SERVERS];                     // server s holds these parameters
    Tensor *params[MOST_SERVERS];                 // in this tensor,
    Tensor *sum[MOST_SERVERS];                    // and adds up their gradients here
    Tensor *received[MOST_SERVERS][MOST_WORKERS]; // what worker w pushed to server s
    bool waits[MOST_WORKERS];                     // that push has not been applied yet
    int waiting;                                  // how many pushes have not been applied yet
    long applied, dropped;                        // pushes, so far
    long based_on[MOST_WORKERS]; // `applied` when worker w pulled the parameters for its push
    Staleness staleness;
    // Set by the caller:
    int per_update; // how many pushes an update takes: 1, W, or W-b
    int batch_size; // images in a minibatch, all workers together
    float lr;
    bool lr_by_staleness; // a push that missed t > 1 others moves 1/t as far
} Servers;

// The parameters of lenet_init(seed), on S servers for W workers. Server s holds the parameters
// equal_range(lenet_floats(), S, s). Servers and workers may share devices. For servers_free().
Servers *servers_new(Device *const devices[], int S, int W, uint64_t seed);
void servers_free(Servers *servers);

// Worker w sends each server its range of the gradients, then sets its own gradients to zero. The
// push that completes an update applies it. Enqueued.
void servers_push(Servers *servers, int w, Worker *worker);
void servers_drop(Servers *servers, Worker *worker); // throws the gradients away
void servers_pull(Servers *servers, Worker *worker); // the worker gets all parameters. Enqueued.
void servers_update(Servers *servers);               // applies all pushes that wait. Enqueued.
