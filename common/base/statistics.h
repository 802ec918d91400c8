// statistics.h: what is said of measured values. A computer does other things too, and they only
// make a measurement longer: so the middle of several is said, not their mean.
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdbool.h>

// The middle of n >= 1 values, and the values below which a quarter and three quarters of them lie.
// A NaN among the values makes all three NaN.
typedef struct Quartiles {
    double low, median, high;
} Quartiles;
Quartiles quartiles(const double values[], int n);
double median(const double values[], int n);

// Of n >= 1 values. A NaN among them is the result.
double mean(const double values[], int n);
double minimum(const double values[], int n);
double maximum(const double values[], int n);

// Whether two measured times may be as they are by chance: their medians are no further apart than
// the values of one of them, from low to high. Also if one of them was measured only once.
bool too_noisy_to_compare(Quartiles a, Quartiles b);

#endif
