// ring.c: across data with the gradients summed in a ring, as in chapter 2, in place of the star.
// For modelled time only: all gradients travel as one vector whose values do not matter.
#include "behind.h"

// In each of 2 (k-1) rounds every device sends a k-th of the vector to its right neighbour. In the
// first half of the rounds the neighbour adds what it gets.
static void gradients(Spread *s, const Tensor *X, const Tensor *y) {
    int k = s->k, n = (int)(network_params(s->network) / k);
    Tensor *part[MAX_DEVICES], *received[MAX_DEVICES];
    Event ready[MAX_DEVICES];
    shard_gradients(s, X, y);
    spread_label("exchange", NULL);
    for (int i = 0; i < k; i++) {
        part[i] = arena_tensor(s->devices[i], 1, &n, false);
        received[i] = arena_tensor(s->devices[i], 1, &n, false);
    }
    for (int round = 0; round < 2 * (k - 1); round++) {
        for (int i = 0; i < k; i++) ready[i] = device_record(s->devices[i]);
        for (int i = 0; i < k; i++) {
            int right = (i + 1) % k;
            spread_send(s, i, ready[i], right, received[right], part[i]);
            if (round < k - 1)
                launch(s->devices[right], add, .y = part[right]->data, .x = received[right]->data,
                       .n = (size_t)n);
        }
    }
    spread_settle(s);
}

const Strategy *across_data_in_a_ring(void) {
    static Strategy ring;
    ring = across_data;
    ring.name = "across data (ring)";
    ring.gradients = gradients;
    return &ring;
}
