// wrong: forgets that a push may not be stale at all: 1/0 is infinite
// loses: 2 4 5
// says: 1/t for 0, too, comes to this: what is not stale has factor 1

#include "your_part.h"

float lr_factor(long staleness) { return 1 / (float)staleness; }

void add_stale_push(Tensor *sum, Tensor *push, long staleness) {
    Device *device = push->device;
    size_t n = numel(push);
    launch(device, scale, .x = push->data, .factor = lr_factor(staleness), .n = n);
    launch(device, add, .y = sum->data, .x = push->data, .n = n);
}
