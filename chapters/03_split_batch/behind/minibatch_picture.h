// minibatch_picture.h: a minibatch of images, each framed in the color of its device.
#ifndef MINIBATCH_PICTURE_H
#define MINIBATCH_PICTURE_H

#include "common/tensor/tensor.h"

// Splits X (n,1,28,28) and y over k devices, checks the shards, and draws X as it is read back from
// them. Without values (--backend model) it draws nothing.
void draw_minibatch(const char *path, const Tensor *X, const Tensor *y, int k);

#endif
