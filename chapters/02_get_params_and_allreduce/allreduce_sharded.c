// allreduce_sharded.c: each device is the hub of one part of the vector.
//
// **Stop here if you mean to do the book's exercise 3**, "implement a more efficient `allreduce`
// function": this is a solution of it. `make exercise-04-3` asks the question, checks your answer
// and compares it with this one.
//
// What is wrong with the star: device 0 makes all additions, and every byte goes through its link;
// the links between the others have nothing to do. Here each half of the work is shared by all:
//
// - *reduce-scatter*: device j receives part j from all others and adds up;
// - *all-gather*: each device collects the other k-1 sums from their owners.
//
// Three devices, what each holds of its three parts:
//
//              device 0   1   2                  0   1   2                  0   1   2
//     part 0        a0  b0  c0                  S0   .   .                 S0  S0  S0
//     part 1        a1  b1  c1        ->         .  S1   .        ->       S1  S1  S1
//     part 2        a2  b2  c2                   .   .  S2                 S2  S2  S2
#include "allreduce.h"

#include "common/tensor/autograd.h"

// Device j receives part j of all others. Each comes to a place of its own, so that they may arrive
// in any order; the returned tensor has them in the order of the devices, j left out.
static Tensor *collect_part(Tensor *const data[], int k, int j, const Event ready[]) {
    Range part = equal_range(numel(data[0]), k, j);
    Tensor *received = arena_tensor(data[j]->device, 2, (int[]){k - 1, (int)part.count}, false);
    // Beginning with the next one: else all would ask device 0 first, then all device 1, ...
    for (int turn = 1; turn < k; turn++) {
        int from = (j + turn) % k, row = from < j ? from : from - 1;
        Range place = {.first = row * part.count, .count = part.count};
        device_copy_after(ready[from], data[j]->device, part_data(received, place),
                          part_data(data[from], part), part.count * sizeof(float));
    }
    return received;
}

// ((0 + 1) + 2) + ..., the order of the star, so that the sums have the same bits. Device j's own
// part is where the sum has to end; a + b is b + a, so it may be the target when its turn comes.
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

    // What is overwritten here, part j of the others, its owner has read before the sum was ready.
    record_all(data, k, ready); // each part is summed
    for (int i = 0; i < k; i++)
        for (int turn = 1; turn < k; turn++) {
            int owner = (i + turn) % k;
            Range part = equal_range(numel(data[0]), k, owner);
            device_copy_after(ready[owner], data[i]->device, part_data(data[i], part),
                              part_data(data[owner], part), part.count * sizeof(float));
        }

    // What comes next may overwrite data[i], so it waits until all others have read their parts.
    record_all(data, k, done);
    for (int i = 0; i < k; i++)
        for (int reader = 0; reader < k; reader++) device_wait(data[i]->device, done[reader]);
}

// First all parts but its own, to their owners; then its own, to all others. It receives as much.
Traffic allreduce_sharded_floats(size_t n, int k, int i) {
    size_t own = equal_range(n, k, i).count, floats = (n - own) + (size_t)(k - 1) * own;
    return (Traffic){.sent = floats, .received = floats};
}
