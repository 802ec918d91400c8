// many_ranks.h: how long a step of training takes on hundreds of ranks: modelled, by the figures of
// a machine and the table of a network. A rank's kernels are counted one by one, messages by the
// formula of a ring. What is the same in all ranks is computed once.
#pragma once

#include "layer_tables.h"
#include "machine.h"

// Seconds in which chapter 2's ring adds up `bytes` on each of so many ranks whose numbers are
// `stride` apart: with a stride of 1 and all ranks, that is one ring, host after host. On each host
// `per_host` devices are ranks; several hosts need network cards. With a stride of s, s such rings
// run at the same time, and what they share they use in turns. Launches are free, as in NCCL, where
// a whole sum is one kernel.
double ring_seconds(const Machine *machine, int ranks, int stride, int per_host, double bytes);

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

// A step of many ranks that all take the same time. Messages are added up one after the other, each
// by one ring of all ranks, beside backward; what is not added up when backward ends makes the step
// longer.
typedef struct ScaledStep {
    double seconds;    // of the step
    double exchanging; // of that: in which messages are on their way
    double efficiency; // rank_seconds() / seconds
    int messages;
} ScaledStep;
ScaledStep scaled_step(const Machine *machine, const NetworkTable *network, const RankStep *rank,
                       SendRule fusion, int ranks);

// ---- what Horovod's authors published -----------------------------------------------------------

// Measured with TensorFlow's own benchmark (64 made-up images on each GPU), on machines with 4
// Pascal GPUs and a card of 25 Gb/s with RoCE each. Images per second: github.com/horovod/horovod,
// README.md of September 2017 (commit d54e3a88); the efficiency on 512: docs/benchmarks.rst.
typedef struct PublishedScaling {
    NetworkTable (*network)(void);
    double one;            // images/s on one GPU
    double sixteen;        // on 16, by Horovod with NCCL and RDMA
    double efficiency_512; // images/s on 512 / (512 x images/s on one)
} PublishedScaling;
enum { NUM_PUBLISHED_SCALINGS = 3, PUBLISHED_IMAGES = 64 };
extern const PublishedScaling published_scalings[NUM_PUBLISHED_SCALINGS];

// The efficiency of the same training, modelled on p100-25gbe: one ring of all ranks, and GPUs that
// are alone as fast as was measured.
double published_modelled(const PublishedScaling *published, SendRule rule, int ranks);
