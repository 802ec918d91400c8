// drawn.h: images for the cases of exercise 1, and what LeNet has learned from them.
#pragma once

#include "replicas.h"

// Images of 28 x 28 pixels with drawn labels. Black ones are 0 in all pixels. Where biases begin
// with 0, each layer of a network makes 0 of them, ReLU stays shut, and no gradient passes the last
// layer: so the biases of that layer are all that is learned. They hardly depend on rounding, and
// tell minibatches and their order from all others. The pixels of grey ones are drawn.
Dataset *draw_images(int count, bool black);

// The biases of the last layer, on each device.
void record_biases(int part, const Replicas *r);
// How the weights of the first layer differ from those of the start, on each device.
void record_change(int part, const Replicas *r, const float start[]);
