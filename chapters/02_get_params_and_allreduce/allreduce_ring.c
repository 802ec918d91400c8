// allreduce_ring.c: each device talks to its two neighbours only, and all of them do all the time.
// What is wrong with the star: every byte goes through the link of device 0. What is wrong with the
// sharded one: every device talks to every other, which needs k (k-1) links at full speed; most
// machines do not have them.
//
// The vector is cut into k parts. In each step each device sends one part to its right and receives
// another from its left. A part travels past all devices and is summed on its way (reduce-scatter);
// the sum then travels past all of them once more and is stored (all-gather). Three devices, and
// what each holds of the three parts; b0 is part 0 of device 1's vector, S0 the sum of all parts 0:
//
//     device  0   1   2         0    1    2        0    1    2       0   1   2        0   1   2
//     part 0 a0  b0  c0         .  ab0    .        .    .   S0      S0   .  S0       S0  S0  S0
//     part 1 a1  b1  c1   ->    .    .  bc1  ->   S1    .    .  ->  S1  S1   .  ->   S1  S1  S1
//     part 2 a2  b2  c2       ca2    .    .        .   S2    .       .  S2  S2       S2  S2  S2
#include "allreduce.h"

#include "common/tensor/autograd.h"

// One step: device i sends part (i + first) mod k to its right neighbour, all devices at once. What
// arrives is put into `received` and added to the device's own part; without `received` it takes
// the place of that.
//
// On the side of the sender nothing is waited for: the part that it sent is overwritten only by the
// sum, and the sum has come round through everybody who read that part.
static void pass_to_the_right(Tensor *const data[], int k, int first, Tensor *const received[]) {
    Event ready[MAX_DEVICES];
    // All taken before the first transfer is enqueued: so each transfer waits for what its sender
    // did in the steps before, and not for what the sender receives in this one.
    record_all(data, k, ready);
    for (int i = 0; i < k; i++) {
        int left = (i + k - 1) % k;
        Device *device = data[i]->device;
        Range part = equal_range(numel(data[0]), k, (left + first) % k);
        float *mine = part_data(data[i], part), *arrived = received ? received[i]->data : mine;
        device_copy_after(ready[left], device, arrived, part_data(data[left], part),
                          part.count * sizeof(float));
        if (received) launch(device, add, .y = mine, .x = arrived, .n = part.count);
    }
}

void allreduce_ring(Tensor *const data[], int k) {
    Tensor *received[MAX_DEVICES];
    Event done[MAX_DEVICES];
    int longest = (int)equal_range(numel(data[0]), k, 0).count;
    for (int i = 0; i < k; i++) received[i] = arena_tensor(data[i]->device, 1, &longest, false);

    // Reduce-scatter: what a device sends is what it added up in the step before. At the end device
    // i has the whole sum of part i+1.
    for (int step = 0; step < k - 1; step++) pass_to_the_right(data, k, k - step, received);
    // All-gather: it sends that, and then what it received in the step before.
    for (int step = 0; step < k - 1; step++) pass_to_the_right(data, k, k + 1 - step, NULL);

    // What comes next may overwrite data[left], so it waits until device i has read the last of it.
    record_all(data, k, done);
    for (int i = 0; i < k; i++) device_wait(data[(i + k - 1) % k]->device, done[i]);
}

// In each half a device sends all parts but one: first part i+1, whose sum it is to keep, then part
// i+2, whose sum its right neighbour has already.
Traffic allreduce_ring_floats(size_t n, int k, int i) {
    size_t own = equal_range(n, k, i).count, next = equal_range(n, k, (i + 1) % k).count;
    size_t after_next = equal_range(n, k, (i + 2) % k).count;
    return (Traffic){.sent = (n - next) + (n - after_next), .received = (n - own) + (n - next)};
}
