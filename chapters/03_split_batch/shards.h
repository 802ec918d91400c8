// shards.h: shards on k devices, and whether they are right.
#ifndef SHARDS_H
#define SHARDS_H

#include "common/tensor/tensor.h"

// Opens the devices 0..k-1 and begins a step on them: shards are made in their arenas.
void open_step(Device *devices[], int k);

// Checks that the shards, one behind the other, are the rows of `whole`, a tensor on the host.
// Waits. Returns how many rows they hold.
int check_shards(const Tensor *whole, Tensor *const shards[], int k);

#endif
