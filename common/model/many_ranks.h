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
typedef struct SendRule {
    double bytes, cycle;
} SendRule;

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
                       ExchangeWay way, SendRule fusion, int ranks);

// ---- what Horovod's authors published -----------------------------------------------------------

// Measured with TensorFlow's own benchmark (64 made-up images on each GPU), on machines with 4
// Pascal GPUs and a card of 25 Gb/s with RoCE each. Images per second: github.com/horovod/horovod,
// README.md of September 2017 (commit d54e3a88); the efficiency on 512: docs/benchmarks.rst.
typedef struct PublishedScaling {
    NetworkTable (*network)(void); // as trained: without an auxiliary classifier
    double one;                    // images/s on one GPU
    double sixteen;                // on 16, by Horovod with NCCL and RDMA
    double servers_sixteen;        // on 16, by TensorFlow's own parameter servers
    double efficiency_512;         // images/s on 512 / (512 x images/s on one)
} PublishedScaling;
enum { NUM_PUBLISHED_SCALINGS = 3, PUBLISHED_IMAGES = 64 };
extern const PublishedScaling published_scalings[NUM_PUBLISHED_SCALINGS];

// The efficiency of the same training, modelled on p100-25gbe: one ring of all ranks, and GPUs that
// are alone as fast as was measured.
double published_modelled(const PublishedScaling *published, SendRule rule, int ranks);

#endif
