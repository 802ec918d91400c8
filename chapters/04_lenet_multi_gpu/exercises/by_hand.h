// by_hand.h: what LeNet learns from black images, worked out by hand: what the checks of exercises
// 1 and 2 compare with.
#ifndef BY_HAND_H
#define BY_HAND_H

#include "common/program/black_images.h"
#include "replicas.h"

enum { LENET_SIDE = 28 }; // pixels

// What is to be done with black images: passes over all of them, with minibatches of k * b in
// orders that are made from the seed, from LeNet's own start.
typedef struct Training {
    const Dataset *data;
    int k, b, epochs;
    float lr;
    uint64_t seed;
} Training;

// The ten biases of the last layer, of device i.
void last_biases(const Replicas *r, int i, float biases[FASHION_MNIST_CLASSES]);

// How far the biases of a device that has been trained are from those that are right, as a part of
// what training changes: rounding makes that some millionths.
double biases_apart(const Training *t, const float came[FASHION_MNIST_CLASSES]);

// A hint for biases that are not right: the mistake that leads to them, or all suspects, if none of
// them does alone.
const char *suspect_of(const Training *t, const float came[FASHION_MNIST_CLASSES]);

#endif
