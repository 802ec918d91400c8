// spread.h: a network spread over k devices, by one of the three strategies.
//
// A `Spread` says which channels (or units) of each layer a device holds. A `Strategy` decides
// that, and computes a step. What follows them is what all three need.
#pragma once

#include "network.h"

typedef struct Strategy Strategy;

typedef struct Spread {
    const Network *network;
    const Strategy *strategy;
    int k, microbatches; // microbatches: of the pipeline only
    Device *devices[MAX_DEVICES];
    // The channels (or units) of layer l that device i holds.
    Range part[MAX_DEVICES][MAX_LAYERS];
    Tensor *params[MAX_DEVICES][MAX_PARAMS]; // those parts, with gradients
    Tensor **losses; // of the last step: summed over some rows each; together, over all rows
    int num_losses;
    // Synchronization points of the last step, at which devices needed others' results: collectives
    // (an allreduce, an all-gather, a reduce-scatter is one each) or, in a pipeline, transfers.
    int syncs;
    Event *arrived; // [from * k + to]: when what was sent last had arrived
} Spread;

struct Strategy {
    const char *name;
    // Says which device holds what: fills in spread->part, which is empty ranges.
    void (*place)(Spread *s);
    // One minibatch, X (n,1,28,28) and y (n) on the host: forward, backward, and what must be
    // exchanged for it. Leaves gradients of sums over the n rows, and losses. All is enqueued.
    void (*gradients)(Spread *s, const Tensor *X, const Tensor *y);
    // What that moves between devices for n rows, and how often devices then wait for each other,
    // in a pipeline with m microbatches.
    double (*bytes_moved)(const Network *network, int k, int n);
    double (*syncs)(const Network *network, int k, int m);
};

// The three ways are in `strategy_data.c`, `strategy_pipeline.c` and `strategy_within.c`.
extern const Strategy across_data, across_layers, within_layers;
enum { NUM_STRATEGIES = 3 };
extern const Strategy *const strategies[NUM_STRATEGIES]; // in this order

// Spreads a network: copies the parameters, which are on the host, to the devices, to each what it
// holds. For `spread_close()`.
Spread *spread_open(const Network *network, Tensor *const params[], const Strategy *strategy,
                    Device *const devices[], int k, int microbatches);
void spread_close(Spread *s);

// A step of training: the gradients of the minibatch, then the update, which is
// `params -= lr / n * gradients` on each device, for n rows.
void spread_step(Spread *s, const Tensor *X, const Tensor *y, float lr);
void spread_update(Spread *s, float lr, int n);

// The loss of the last step, summed over its rows. Waits for it.
double spread_loss(const Spread *s);
// The gradient of parameter p as a whole, put together from what the devices hold; waits for it.
// `whole` gives the shape. The caller frees it.
float *spread_grad(const Spread *s, int p, const Tensor *whole);
// The bytes of the parameters, with their gradients, that device i holds.
size_t spread_param_bytes(const Spread *s, int i);

// ## For the strategies

// Begins a step: all devices forget the last one.
void spread_begin(Spread *s, int num_losses);
// Copies some rows of a tensor on the host to device i, into its arena (its memory for one
// step). In the timelines this is "load".
Tensor *spread_rows(const Spread *s, int i, const Tensor *t, Range rows);
// Sends `src`, on device `from`, to `dst`, on device `to`, once the queue of `from` has reached the
// point `ready`. The sender goes on at once; it must not overwrite `src` before `spread_settle()`.
void spread_send(Spread *s, int from, Event ready, int to, Tensor *dst, const Tensor *src);
// Lets later work of each device start after all that it sent has arrived.
void spread_settle(Spread *s);
// Says what the work that follows is, for the timelines: "forward" and, if given, "conv1".
void spread_label(const char *what, const char *detail);
// Of `across_data`, all that comes before the gradients are summed; another sum may follow.
void shard_gradients(Spread *s, const Tensor *X, const Tensor *y);
