// loader.h: the images that a rank loads by itself, as its sampler says.
#ifndef LOADER_H
#define LOADER_H

#include "common/data/fashion_mnist.h"
#include "sampler.h"

typedef struct Loader {
    DistributedSampler sampler;
    const Dataset *data;
    int *indices, next; // of this epoch, and how many of them were taken
    Tensor *X, *y;      // on the host, as many rows as a step can have
} Loader;

// For the images of `data`: the sampler's num_images is set to their number. At most so many rows a
// step. For loader_free().
Loader loader_new(const Dataset *data, DistributedSampler sampler, int rows);
void loader_free(Loader *l);

// To be called before the first loader_next() of each epoch; epochs count from 0.
void loader_start(Loader *l, int epoch);
// The next `rows` images, or as many as there are (perhaps none), X (n,1,rows,cols) and y (n) in
// the arena of the device. The loader's own memory may be used anew when the copies are done: wait
// for the device before the next call.
void loader_next(Loader *l, int rows, Device *device, Tensor **X, Tensor **y);

#endif
