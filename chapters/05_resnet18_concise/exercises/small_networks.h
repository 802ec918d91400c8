// small_networks.h: what the exercises of this chapter share, so that each is about its question:
// images of a quarter of the size, and smaller networks.
#ifndef SMALL_NETWORKS_H
#define SMALL_NETWORKS_H

#include "common/program/flags.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"

// --rounds, for the own flags of an experiment that measures: how often it measures each time.
extern int rounds;
extern const Flag rounds_flag[];

// The first images of Fashion-MNIST with 14 x 14 pixels, each the mean of 2 x 2. ResNet-18 has the
// same parameters for them and about a quarter of the work, so that many runs fit into two minutes.
Dataset *small_images(const char *directory, bool train, int limit);

// For cases: `count` images of 14 x 14 pixels and their labels, all from draw().
enum { DRAWN_SIDE = 14 };
Dataset *drawn_images(int count);

// Convolution, batch norm and linear layer, for drawn images: all that the cases need, in no time.
// Without ReLU, where rounding may put a value that is nearly 0 on the other side.
Module *small_network(void);
// Records the biases of its last layer, which come after all that training did, and depend on it.
void record_biases(int part, const Module *net, Device *device);
// ResNet-18 with a quarter of the channels: a 16th of the parameters and of the work, so that it
// can be trained for hundreds of steps. (In fewer, batch norm's running variance is still on its
// way from 1, where it starts, and the network guesses.)
Module *quarter_resnet18(void);
// LeNet of chapter 4 from modules; `pixels` is the side of its images, 28 or 14.
Module *lenet_modules(int pixels);

// The network from the seed, on the first k devices.
DataParallel network_on(Module *net, int k, BatchNormMode bn, uint64_t seed);
// Takes the network off all devices and gives back their arenas, so that the next run begins with
// no memory in use.
void leave_devices(Module *net, uint64_t seed);

#endif
