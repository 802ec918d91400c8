// your_part.h: what the files of this exercise know of each other: first your part.
#pragma once

#include "chapters/09_what_each_device_keeps/exercises/sharded.h"

void clipped_step(Sharded *s, float lr, float max_norm, int batch_size);
