// statistics.h: summaries of measured values. Everything else that a computer does makes a
// measurement longer, never shorter, so report the median of several times, not their mean.
#pragma once

// The median of n >= 1 values, and the values below which a quarter and three quarters of them lie.
// If one of the values is NaN, all three are.
typedef struct Quartiles {
    double low, median, high;
} Quartiles;
Quartiles quartiles(const double values[], int n);
double median(const double values[], int n);

// Of n >= 1 values. If one of them is NaN, so is the result.
double mean(const double values[], int n);
double minimum(const double values[], int n);
double maximum(const double values[], int n);
