// small_networks.h: what the exercises of this chapter share, so that each is about its question:
// images of a quarter of the size, and smaller networks.
#pragma once

#include "common/program/flags.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"

// --rounds, for the own flags of an experiment that measures: how often it measures each time.
extern int rounds;
extern const Flag rounds_flag[];

// The first images of Fashion-MNIST with 14 x 14 pixels, each the mean of 2 x 2. ResNet-18 has the
// same parameters for them and about a quarter of the work, so that many runs fit into two minutes.
Dataset *small_images(const char *directory, bool train, int limit);

// ResNet-18 with a quarter of the channels: a 16th of the parameters and of the work, so that it
// can be trained for hundreds of steps. (In fewer, batch norm's running variance is still on its
// way from 1, where it starts, and the network guesses.)
Module *quarter_resnet18(void);

// The network from the seed, on the first k devices.
DataParallel network_on(Module *net, int k, BatchNormMode bn, uint64_t seed);
// Takes the network off all devices and gives back their arenas, so that the next run begins with
// no memory in use.
void leave_devices(Module *net, uint64_t seed);
