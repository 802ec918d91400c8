// bubble.h: how much of a step a pipeline's devices are idle.
//
// For the table and the picture, call measure_bubble() where devices compute, or model_bubble(),
// which prints nothing if the machine of the modelled clock cannot run such a pipeline.
#ifndef BUBBLE_H
#define BUBBLE_H

#include "behind/record.h"

// The share of the time between the first forward and the last backward in which a device did
// neither, mean over the devices.
double idle_share(const Recorded *r);
// What fill-drain with m microbatches comes to if all stages take equally long: (k-1)/(m+k-1).
double equal_bubble(int k, int m);
// The same for stages that take as long as they did in this step: the line moves at the pace of the
// slowest.
double stage_bubble(const Recorded *r, int m);

// A table of these for pipelines of k devices with 1, 2, 4 and 8 microbatches: of eight equal
// layers, which also become a picture, and of another network. That is LeNet, as the problem has
// it, measured here; or AlexNet, modelled, on the machine of the modelled clock. Returns the idle
// share of the other network with the most microbatches, by stage_bubble(); NAN: it cannot be cut
// into k stages. The PNGs are book_timeline("_bubble_measured.png") and
// book_timeline("_bubble_modelled.png").
double measure_bubble(const Problem *lenet, int k, uint64_t seed);
double model_bubble(int k);

#endif
