// bandwidth.h: the bandwidth of the ring: measured here, modelled, and beside it NCCL's.
#ifndef BANDWIDTH_H
#define BANDWIDTH_H

#include <stdio.h>

// A table for the longest vector that k devices have memory for, and the rows of the CSV that
// compare_four_ways() does not write. No measured row if devices compute nothing, no modelled ones
// if no machine is modelled.
void show_bandwidth(int k, FILE *csv);

#endif
