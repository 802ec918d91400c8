// your_part.h: what the files of this exercise know of each other: your part.
#pragma once

#include "pipeline.h"

int one_forward_one_backward(int i, int k, int m, Turn turns[]);
