// shards.h: shards on k devices, whether they are right, and something to split.
#ifndef SHARDS_H
#define SHARDS_H

#include "common/tensor/tensor.h"

// 0, 1, 2, ... in the given shape, on the host: the book's arange(n).reshape(rows, cols). With
// cols 0 it is a vector. To be freed with tensor_free().
Tensor *arange(int rows, int cols);

// Opens the devices 0..k-1 and begins a step on them: shards are made in their arenas.
void open_step(Device *devices[], int k);

// Checks that the shards, one behind the other, are the rows of `whole`, a tensor on the host.
// Waits. Returns how many rows they hold.
int check_shards(const Tensor *whole, Tensor *const shards[], int k);

#endif
