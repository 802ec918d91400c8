// sampling.h: each rank loads its own images: who gets which, and what that does to an accuracy.
#ifndef SAMPLING_H
#define SAMPLING_H

#include <stdbool.h>
#include "common/data/fashion_mnist.h"

// A table of the images that 4 ranks get of 10, in each mode of the sampler.
void show_samplers(void);

// What is trained, and how.
typedef struct Lesson {
    const Dataset *train_data, *test_data;
    int k, batch_size, epochs; // batch_size: rows of all ranks together
    float lr;
    uint64_t seed;
} Lesson;

// Trains LeNet by DDP on k devices. Each loads its own images, each image once in an epoch, and the
// test accuracy is counted on all of them, each image once, too. Prints a line for each epoch, and
// at the end, for more than one rank, the accuracy that padding and dropping would have given.
// Returns the exact one; NaN if interrupted().
double train_with_samplers(const Lesson *lesson);

#endif
