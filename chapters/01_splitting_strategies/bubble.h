// bubble.h: how much of a step a pipeline's devices are idle.
#ifndef BUBBLE_H
#define BUBBLE_H

#include "record.h"

// The share of the time between the first forward and the last backward in which a device did
// neither, mean over the devices.
double idle_share(const Recorded *r);
// What fill-drain with m microbatches comes to if all stages take equally long: (k-1)/(m+k-1).
double equal_bubble(int k, int m);
// The same for stages that take as long as they did in this step: the line moves at the pace of the
// slowest.
double stage_bubble(const Recorded *r, int m);

// Tables of both and of what came out, for as many microbatches as 1, 2, 4 and 8, on ks[1], ks[2],
// ... devices: measured, of LeNet, as the problem has it, and of eight equal layers; modelled, of
// AlexNet, a problem_to_model(), and of eight wide layers. One of each becomes a picture.
void show_bubble(const Problem *lenet, const Problem *alexnet, const int ks[], int num_ks,
                 uint64_t seed);

#endif
