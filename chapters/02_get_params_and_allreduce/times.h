// times.h: how long the allreduces take: measured here, and modelled on the machine of --machine.
#ifndef TIMES_H
#define TIMES_H

#include <stdio.h>

// The sizes of the vectors, in bytes: each four times the one before. Not all of them if k is so
// large that memory might not do.
enum { SMALLEST = 1 << 10, LARGEST = 64 << 20, MOST_BYTES_IN_ALL = 256 << 20 };
size_t largest_size(int k);

// Times all algorithms on k devices, each size at most so many times (-1: as often as there is time
// for). Prints a table of the times and, for the longest vector, the bandwidths; writes them to the
// CSV. Devices that compute nothing (--backend model) have modelled times only; without a machine
// there are measured times only.
void compare_times(int k, int most_rounds, FILE *csv);

// What the tables say, in words.
void explain_times(void);

#endif
