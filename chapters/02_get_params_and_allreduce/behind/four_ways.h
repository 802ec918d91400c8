// four_ways.h: the four ways to sum in numbers: steps, bytes, modelled times, and whether the sums
// are right.
#ifndef FOUR_WAYS_H
#define FOUR_WAYS_H

#include <stdint.h>
#include <stdio.h>

// Prints the table for k devices, checks bytes and sums, and writes the CSV from its first line on.
// Returns what the ring's busiest device sends on 8 devices, in vectors; NAN if there cannot be 8.
double compare_four_ways(int k, uint64_t seed, FILE *csv);

// Rows of the CSV for 8 KB and 160 MB on 2 to 1024 devices, if the machine has a network.
void model_up_to_1024_devices(FILE *csv);

// The CSV of times on k devices alone, from its first line on. There must be a machine.
void model_curves(int k, FILE *csv);

#endif
