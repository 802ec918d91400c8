// allreduce_sharded.c: each device is the hub of one part of the vector.
//
// **Stop here if you want to do the book's exercise 3**, "implement a more efficient `allreduce`
// function": this is a solution. `make exercise-04-3` checks yours and compares it with this one.
//
// - *Reduce-scatter*: device j receives part j from all others and adds up.
// - *All-gather*: each device collects the other k-1 sums from their owners.
//
// Three devices with their three parts:
//
//              device 0   1   2                  0   1   2                  0   1   2
//     part 0        a0  b0  c0                  S0   .   .                 S0  S0  S0
//     part 1        a1  b1  c1        ->         .  S1   .        ->       S1  S1  S1
//     part 2        a2  b2  c2                   .   .  S2                 S2  S2  S2
#include "allreduce.h"

#include "common/tensor/autograd.h"

// Device j receives part j of all others, each in its own row, so they may arrive in any order. The
// rows are in the order of the devices, without j.
static Tensor *collect_part(Tensor *const data[], int k, int j, const Event ready[]) {
    Range part = equal_range(numel(data[0]), k, j);
    Tensor *received = arena_tensor(data[j]->device, 2, (int[]){k - 1, (int)part.count}, false);
    // Begin with the next device, so that not all devices ask device 0 first.
    for (int turn = 1; turn < k; turn++) {
        int from = (j + turn) % k, row = from < j ? from : from - 1;
        Range place = {.first = row * part.count, .count = part.count};
        device_copy_after(ready[from], data[j]->device, part_data(received, place),
                          part_data(data[from], part), part.count * sizeof(float));
    }
    return received;
}

// ((0 + 1) + 2) + ..., the star's order and so the star's bits. The sum must end in device j's own
// part. Because a + b is b + a, that part can be the target when its turn comes.
static void add_in_order(Tensor *const data[], int k, int j, const Tensor *received) {
    Range part = equal_range(numel(data[0]), k, j);
    float *mine = part_data(data[j], part), *sum = j == 0 ? mine : received->data;
    for (int i = 1; i < k; i++) {
        Range place = {.first = (i < j ? i : i - 1) * part.count, .count = part.count};
        const float *next = i == j ? sum : part_data(received, place);
        if (i == j) sum = mine;
        launch(data[j]->device, add, .y = sum, .x = next, .n = part.count);
    }
}

void allreduce_sharded(Tensor *const data[], int k) {
    Event ready[MAX_DEVICES], done[MAX_DEVICES];

    record_all(data, k, ready); // each vector is complete
    for (int j = 0; j < k; j++) add_in_order(data, k, j, collect_part(data, k, j, ready));

    // Collect the sums. They overwrite what their owners have read: a sum is ready only after that.
    record_all(data, k, ready); // each part is summed
    for (int i = 0; i < k; i++)
        for (int turn = 1; turn < k; turn++) {
            int owner = (i + turn) % k;
            Range part = equal_range(numel(data[0]), k, owner);
            device_copy_after(ready[owner], data[i]->device, part_data(data[i], part),
                              part_data(data[owner], part), part.count * sizeof(float));
        }

    // Wait until all others have read data[i]: what comes next may overwrite it.
    record_all(data, k, done);
    for (int i = 0; i < k; i++)
        for (int reader = 0; reader < k; reader++) device_wait(data[i]->device, done[reader]);
}

// A device sends all parts but its own to their owners, then its own to all others. It receives the
// same number.
Traffic allreduce_sharded_floats(size_t n, int k, int i) {
    size_t own = equal_range(n, k, i).count, floats = (n - own) + (size_t)(k - 1) * own;
    return (Traffic){.sent = floats, .received = floats};
}
