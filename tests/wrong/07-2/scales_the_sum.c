// wrong: adds the push, then scales the sum, with the pushes in it that have had their factors
// loses: 3
// says: what is in it has had its factors; scale the push, then add it

#include "your_part.h"

float lr_factor(long staleness) {
    if (staleness < 1) return 1;
    return 1.0f / (float)staleness;
}

void add_stale_push(Tensor *sum, Tensor *push, long staleness) {
    Device *device = push->device;
    size_t n = numel(push);
    launch(device, add, .y = sum->data, .x = push->data, .n = n);
    launch(device, scale, .x = sum->data, .factor = lr_factor(staleness), .n = n);
}
