// many_ranks.h: how long a step of training takes on hundreds of ranks: modelled, by the figures of
// a machine and the table of a network. A rank's kernels are counted one by one, messages by
// exchange_model.h. What is the same in all ranks is computed once.
#ifndef MANY_RANKS_H
#define MANY_RANKS_H

#include "exchange_model.h"
#include "layer_tables.h"

// When gradients are sent. A message has the gradients of whole layers, in the order in which
// backward comes to them; it is sent as soon as it has `bytes` or more, and the last one after
// backward. With a `cycle` (in seconds; 0: none) it is sent at the next multiple of that instead,
// with all that is ready then, but not more than `bytes` if it has more than one layer.
typedef struct Fusion {
    double bytes, cycle;
} Fusion;

// A step of a rank that exchanges nothing: when each layer's gradients are there, when backward is
// done, and how long the update takes after that. Seconds since its begin.
typedef struct RankStep {
    double ready[MOST_TABLE_LAYERS], backward, update;
} RankStep;
// On this machine, where each rank is a device that one host thread launches for. With tf32,
// products keep 10 bits of each factor (allow_tf32()).
RankStep rank_step(const Machine *machine, const NetworkTable *network, int images, bool tf32);
// The same on a device that is so many times as fast.
RankStep faster_rank(const RankStep *rank, double times);
static inline double rank_seconds(const RankStep *rank) { return rank->backward + rank->update; }

// A step of many ranks that all take the same time. Messages are exchanged one after the other,
// beside backward; what is still to be exchanged then is what the step takes longer.
typedef struct ScaledStep {
    double seconds;    // of the step
    double exchanging; // of that: in which messages are on their way
    double efficiency; // rank_seconds() / seconds
    int messages;
} ScaledStep;
ScaledStep scaled_step(const Machine *machine, const NetworkTable *network, const RankStep *rank,
                       ExchangeWay way, Fusion fusion, int ranks);

#endif
