// gradient_table.h: the table of gradients: right ones, and averages of averages.
#ifndef GRADIENT_TABLE_H
#define GRADIENT_TABLE_H

#include "one_layer.h"

void print_gradient_head(void);

// A row, for n images over k devices: the gradient on one device, the sum over the k devices
// divided by n, and the average of their averages; each has NUM_GRADS numbers. Ends the program
// with an error if the second is not the first, but for rounding, or if the third is not so just
// where the shards are `equal`. Returns the error of the third; NAN if it is no number.
double print_gradient_row(int n, int k, const double one[], const double sum_over_n[],
                          const double average_of_averages[], bool equal);

// In words, after rows of n images over k devices.
void explain_averages(int n, int k);

#endif
