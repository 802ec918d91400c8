// wrong: divides by t + 1 instead of t, so that a staleness of 0 needs no case of its own
// loses: 1 2 5
// says: 1/\(t \+ 1\) comes to this

#include "your_part.h"

float lr_factor(long staleness) { return 1 / (float)(staleness + 1); }

void add_stale_push(Tensor *sum, Tensor *push, long staleness) {
    Device *device = push->device;
    size_t n = numel(push);
    launch(device, scale, .x = push->data, .factor = lr_factor(staleness), .n = n);
    launch(device, add, .y = sum->data, .x = push->data, .n = n);
}
