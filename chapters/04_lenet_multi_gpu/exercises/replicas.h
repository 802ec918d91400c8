// replicas.h: what the exercises of this chapter share, so that each is about its question:
// replicas of LeNet on k devices.
#pragma once

#include "common/data/evaluate.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"

// LeNet on k devices: the same start on each, made from the seed.
typedef struct Replicas {
    int k;
    Device *devices[MAX_DEVICES];
    Tensor *params[MAX_DEVICES][LENET_PARAMS];
} Replicas;
void replicas_open(Replicas *r, int k, uint64_t seed);
void replicas_open_modelled(Replicas *r, int k); // on devices that compute nothing, to be timed
void replicas_close(Replicas *r);
// Multiplies all parameters. LeNet starts with small weights and does not learn for the first
// hundreds of updates; ten times as large, it learns at once.
void replicas_scale(Replicas *r, float factor);

// How many images, each with its label, device i got from the host since ledger_reset().
double images_received(const Replicas *r, int i, const Dataset *data);
