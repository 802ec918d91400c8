// costs.h: what a strategy costs, from the shapes of a network alone: memory_of() and
// busiest_share(). (Each strategy has a formula for its bytes: Strategy in spread.h.)
#pragma once

#include "spread.h"

static inline double megabytes(double bytes) { return bytes / 1e6; }

// The network in k stages of whole layers, so that the largest stage has as little work as can be:
// stage s is layers first[s] .. first[s+1] - 1. At most network_pieces() stages. Returns that work.
double stages_of(const Network *network, int k, int first[]);
int network_pieces(const Network *network); // into which it can be cut

// A pipeline has no more devices than there are pieces. Within layers, more devices than channels
// leave some without any.
int most_devices(const Strategy *strategy, const Network *network);

// The most bytes that a device has of each: the most of the sum may be less than the sum of those.
typedef struct Memory {
    double params;      // with their gradients
    double activations; // outputs, kept until backward has used them; their gradients, of two
                        // operations at a time; what came from other devices, with gradients
    double both;
} Memory;
// With k devices, n rows, and, in a pipeline, m microbatches.
Memory memory_of(const Strategy *strategy, const Network *network, int k, int n, int m);

// The work of the device that has most to do, as a share of the whole: 1/k at best.
double busiest_share(const Strategy *strategy, const Network *network, int k, int n);
