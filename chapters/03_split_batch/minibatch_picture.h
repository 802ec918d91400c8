// minibatch_picture.h: a minibatch of images, each framed in the color of its device.
#ifndef MINIBATCH_PICTURE_H
#define MINIBATCH_PICTURE_H

#include "common/tensor/tensor.h"

// Draws the images of the shards (n_i,1,28,28), as they are read back from the k devices, one
// behind the other to a PNG. Waits.
void draw_minibatch(const char *path, Tensor *const X_shards[], int k);

#endif
