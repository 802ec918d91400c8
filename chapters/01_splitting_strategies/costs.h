// costs.h: what a strategy costs, from the shapes of a network alone: memory
// and work.
#ifndef COSTS_H
#define COSTS_H

#include "spread.h"

extern const Network alexnet_network, resnet18_network; // for ImageNet: 224 x 224, 1000 classes

static inline double megabytes(double bytes) { return bytes / 1e6; }

double network_params(const Network *network);
double network_macs(const Network *network); // for one image, forward

// The network in k stages of whole layers, so that the largest stage has as little work as can be:
// stage s is layers first[s] .. first[s+1] - 1. At most network_pieces() stages.
void stages_of(const Network *network, int k, int first[]);
int network_pieces(const Network *network); // into which it can be cut

// Bytes, gradients included: the most that a device has of parameters, of activations, of both.
typedef struct Memory {
    double params, activations, both;
} Memory;
Memory memory_of(const Strategy *strategy, const Network *network, int k, int n);

// The work of the device that has most to do, as a share of the whole: 1/k at best.
double busiest_share(const Strategy *strategy, const Network *network, int k, int n);

#endif
