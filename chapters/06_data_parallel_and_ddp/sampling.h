// sampling.h: each rank loads its own images: who gets which, and what that does to an accuracy.
#ifndef SAMPLING_H
#define SAMPLING_H

#include <stdbool.h>
#include "common/data/fashion_mnist.h"

// A table of the images that 4 ranks get of 10, in each mode of the sampler.
void show_samplers(void);

// Trains LeNet by DDP on k devices, each of which loads its own images, for some epochs, with
// evaluation on all ranks, exact; then the same on one device. Prints a line for each epoch.
// Returns the test accuracy; also shows that of the same network with padding and dropping on
// `ranks` ranks.
typedef struct Lesson {
    const Dataset *train_data, *test_data;
    int k, batch_size, epochs; // batch_size: rows of all ranks
    float lr;
    uint64_t seed;
} Lesson;
double train_with_samplers(const Lesson *lesson);

#endif
