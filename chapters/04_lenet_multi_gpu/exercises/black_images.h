// black_images.h: what LeNet learns from black images, worked out by hand. The checks of exercises
// 1 and 2 train it on these: there the parameters at the end tell, to the last digits, which labels
// were in which minibatch, and in which order minibatches came.
#ifndef BLACK_IMAGES_H
#define BLACK_IMAGES_H

#include "replicas.h"

// So many black images; image i has the label i * i modulo 10, so that some labels come more often
// than others.
Dataset *black_images(int count);

// What is to be done with them: passes over all of them, with minibatches of k * b images in orders
// that are made from the seed, from LeNet's own start.
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
