// times.h: how long the allreduces take on this machine.
#ifndef TIMES_H
#define TIMES_H

#include "allreduce.h"

#include <stdio.h>

// Measures all algorithms on k devices, each size at most so many times (-1: as often as there is
// time for). Prints a table of the times and, for the longest vector, the bandwidths; writes them
// to the CSV, whose first line is written by write_times_header().
void compare_times(int k, int most_rounds, FILE *csv);
void write_times_header(FILE *csv);

// What the tables say, in words.
void explain_times(void);

#endif
