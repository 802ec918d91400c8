// drawn.h: images for the cases of exercises 1, 2 and 4, and what LeNet has learned from them.
#ifndef DRAWN_H
#define DRAWN_H

#include "replicas.h"

// Images that are 0 in all pixels, with label 0. Where biases begin with 0, each layer of a network
// makes 0 of them, ReLU stays shut, and no gradient passes the last layer: so the biases of that
// layer are all that is learned. They hardly depend on rounding, and tell minibatches and their
// order from all others.
Dataset *black_images(int side, int count);
// 28 x 28 pixels, black or drawn, with labels that are drawn.
Dataset *draw_images(int count, bool black);

// The biases of the last layer, on each device.
void record_biases(int part, const Replicas *r);
// How the weights of the first layer differ from those of the start, on each device.
void record_change(int part, const Replicas *r, const float start[]);

#endif
