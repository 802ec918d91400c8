// parity.h: what one device computes, and whether k devices compute the same. They must be devices
// that compute: with --backend model there is nothing to compare.
#ifndef PARITY_H
#define PARITY_H

#include "problem.h"

// What one device computes for a minibatch.
typedef struct Reference {
    double loss, next_loss; // summed over the rows: before the update, and after it
    float *grads[MAX_PARAMS];
} Reference;

// One step of the problem on one device, and the loss that follows it; for reference_free(). Ends
// the program with an error if the update makes the loss much larger.
Reference one_device_step(const Problem *problem);
void reference_free(Reference *r, const Network *network);

// Makes the step with `s` and compares: the loss, the gradients of all parameters, the loss after
// the update. Ends the program with an error if one of them differs from that of the one device by
// more than rounding (sums over rows or channels are added up in another order). Returns the
// largest difference: of a loss, as a part of it; of a parameter's gradient, as a part of its
// largest.
double check_same_step(Spread *s, const Problem *problem, const Reference *r);

#endif
