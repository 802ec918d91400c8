// pictures.h: what the trained LeNet looks like, and what it does.
#ifndef PICTURES_H
#define PICTURES_H

#include "common/data/fashion_mnist.h"

// The 20 filters of the first convolution (W1 of params, on the host) and, to the right of each,
// what it makes of one test image (with the bias, before relu); computed on the device.
void draw_filters(const char *path, Tensor *const params[], const Dataset *test, Device *device);

// The first test images with predicted and true class; wrong ones are framed.
void draw_predictions(const char *path, Tensor *const params[], const Dataset *test,
                      Device *device);

#endif
