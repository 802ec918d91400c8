// allreduce_ring.c: each device sends to its right neighbour only, and all send at the same time.
#include "allreduce.h"

#include "common/tensor/autograd.h"

// The vector has k parts. First each part travels around the ring, and each device adds to it
// (reduce-scatter). Then the finished sum travels around the ring, and each device stores it
// (all-gather). Three devices need four steps. Here ab0 is the sum of a0 and b0:
//
//     device    0   1   2        0   1   2        0   1   2        0   1   2        0   1   2
//     part 0   a0  b0  c0   ->  a0 ab0  c0   ->  a0 ab0  S0   ->  S0 ab0  S0   ->  S0  S0  S0
//     part 1   a1  b1  c1   ->  a1  b1 bc1   ->  S1  b1 bc1   ->  S1  S1 bc1   ->  S1  S1  S1
//     part 2   a2  b2  c2   -> ca2  b2  c2   -> ca2  S2  c2   -> ca2  S2  S2   ->  S2  S2  S2
//
// If all devices worked in lockstep, this would be the whole method, with all numbers of devices
// and parts modulo k:
//
//     for (int step = 0; step < k - 1; step++) // reduce-scatter
//         for (int i = 0; i < k; i++)
//             data[i + 1][i - step] += data[i][i - step];
//     for (int step = 0; step < k - 1; step++) // all-gather
//         for (int i = 0; i < k; i++)
//             data[i + 1][i + 1 - step] = data[i][i + 1 - step];
//
// So in each step, device i passes on part i + `first`, where `first` is 0, -1, .. in the first
// half and 1, 0, .. in the second one. But each device's queue runs at its own pace. In step 2,
// device 2 must not copy ab0 before device 1 has computed it. An *event* marks a point in a queue,
// and `device_copy_after()` waits for it (chapter 0). `pass_to_the_right()` adds these waits. In
// the first half a part arrives in `received` and is added from there. In the second half it is
// stored directly, and `received` is NULL. So the loops over the steps call
// `pass_to_the_right(data, k, -step, received)` and then `pass_to_the_right(data, k, 1 - step,
// NULL)`.
static void pass_to_the_right(Tensor *const data[], int k, int first, Tensor *const received[]) {
    // Events: where each queue is before this step's transfers.
    Event ready[MAX_DEVICES];
    record_all(data, k, ready);
    // Let each device fetch its left neighbour's part.
    for (int i = 0; i < k; i++) {
        int left = (i + k - 1) % k;
        Device *device = data[i]->device;
        Range part = equal_range(numel(data[0]), k, (left + first + k) % k);
        float *mine = part_data(data[i], part), *arrived = received ? received[i]->data : mine;
        device_copy_after(ready[left], device, arrived, part_data(data[left], part),
                          part.count * sizeof(float));
        if (received) launch(device, add, .y = mine, .x = arrived, .n = part.count);
    }
    // No event is needed to show that the right neighbour has read the part. Only the whole sum
    // overwrites the part, and there is no whole sum until the neighbour has added it.
}

void allreduce_ring(Tensor *const data[], int k) {
    Tensor *received[MAX_DEVICES];
    Event done[MAX_DEVICES];
    int longest = (int)equal_range(numel(data[0]), k, 0).count;
    for (int i = 0; i < k; i++) received[i] = arena_tensor(data[i]->device, 1, &longest, false);

    // Reduce-scatter: each device passes on the part that it added to in the step before. At the
    // end, device i has the whole sum of part i+1.
    for (int step = 0; step < k - 1; step++) pass_to_the_right(data, k, -step, received);
    // All-gather: each device passes on that sum, then the one that arrived in the step before.
    for (int step = 0; step < k - 1; step++) pass_to_the_right(data, k, 1 - step, NULL);

    // Wait for the right neighbour's last read: what comes next may overwrite the vector.
    record_all(data, k, done);
    for (int i = 0; i < k; i++) device_wait(data[(i + k - 1) % k]->device, done[i]);
}

// In each half a device sends all parts but one: first all but part i+1, whose sum it keeps, then
// all but part i+2, whose sum its right neighbour has.
Traffic allreduce_ring_floats(size_t n, int k, int i) {
    size_t own = equal_range(n, k, i).count, next = equal_range(n, k, (i + 1) % k).count;
    size_t after_next = equal_range(n, k, (i + 2) % k).count;
    return (Traffic){.sent = (n - next) + (n - after_next), .received = (n - own) + (n - next)};
}
