// statistics.h: what is said of measured values. A computer does other things too, and they only
// make a measurement longer: so the middle of several is said, not their mean.
#ifndef STATISTICS_H
#define STATISTICS_H

// The middle of n >= 1 values, and the values below which a quarter and three quarters of them lie.
// A NaN among the values makes all three NaN.
typedef struct Quartiles {
    double low, median, high;
} Quartiles;
Quartiles quartiles(const double values[], int n);
double median(const double values[], int n);

#endif
