// drawn.h: images that are drawn from the seed, for the cases of exercises 1 and 2, and what LeNet
// has learned from them.
#ifndef DRAWN_H
#define DRAWN_H

#include "replicas.h"

// From black images LeNet learns the biases of its last layer, and nothing else (black_images.h).
// These hardly depend on rounding, and tell minibatches and their order from all others.
Dataset *draw_images(int count, bool black);

// The biases of the last layer, on each device.
void record_biases(int part, const Replicas *r);
// How the weights of the first layer differ from those of the start, on each device.
void record_change(int part, const Replicas *r, const float start[]);

#endif
