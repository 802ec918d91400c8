// parity.h: whether a network on k devices gives what one device gives.
#ifndef PARITY_H
#define PARITY_H

#include "problem.h"

// What one device computes for a minibatch.
typedef struct Reference {
    double loss, next_loss;   // summed over the rows: before the update, and after it
    float *grads[MAX_PARAMS]; // to be given to free()
    bool has_values;          // else there is nothing to compare
} Reference;

// Both end the program with an error if the last step of `s` has another result than the one
// device, but for rounding: sums over rows or channels are added up in another order. They return
// the difference that rounding made, as a part of the loss, or for each parameter of its largest
// gradient.
double check_same_loss(const Spread *s, double expected);
double check_same_gradients(const Spread *s, const Problem *problem, const Reference *r);

#endif
