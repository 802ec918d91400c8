// minibatch_picture.h: a minibatch of images, each framed in the color of its device.
#ifndef MINIBATCH_PICTURE_H
#define MINIBATCH_PICTURE_H

#include "common/tensor/tensor.h"

// Splits X (n,1,28,28) and y over k devices, checks the shards, and draws X as read back from them;
// nothing if the devices have no values.
void draw_minibatch(const char *path, const Tensor *X, const Tensor *y, int k);

#endif
