// your_part.h: what the files of this exercise know of each other: first your part.
#pragma once

#include "chapters/09_what_each_device_keeps/exercises/sharded.h"

// A training that was saved: all numbers of each parameter and of its moments, in their order.
enum { MOST_FLOATS = 64 << 10 }; // of a parameter
typedef struct Saved {
    float params[MOST_TENSORS][MOST_FLOATS], moments[MOST_TENSORS][MOST_FLOATS];
} Saved;

void gather(Sharded *s);
void reduce_gradients(Sharded *s);
void update(Sharded *s, float lr, int batch_size);
float train_step(Sharded *s, const Tensor *X, const Tensor *y, float lr);
void load(Sharded *s, const Saved *saved);
