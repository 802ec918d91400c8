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

#include "common/base/error.h"
#include "common/tensor/autograd.h"

// Device j receives part j of all others, each in its own row, so they may arrive in any order. The
// rows are in the order of the devices, without j.
static void collect_part(Tensor *const data[], int k, int j, const Event ready[],
                         const Tensor *received) {
    Range part = equal_range(numel(data[0]), k, j);
    // Begin with the next device, so that not all devices ask device 0 first.
    for (int turn = 1; turn < k; turn++) {
        int from = (j + turn) % k, row = from < j ? from : from - 1;
        Range place = {.first = row * part.count, .count = part.count};
        device_copy_after(ready[from], data[j]->device, part_data(received, place),
                          part_data(data[from], part), part.count * sizeof(float));
    }
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

static void sum_parts(Tensor *const data[], int k, Tensor *const received[]) {
    Event ready[MAX_DEVICES];
    record_all(data, k, ready); // each vector is complete
    for (int j = 0; j < k; j++) {
        collect_part(data, k, j, ready, received[j]);
        add_in_order(data, k, j, received[j]);
    }
}

// parts[j] is, or is to become, part j of all vectors.
static void collect_parts(Tensor *const full[], Tensor *const parts[], int k) {
    Event ready[MAX_DEVICES];
    record_all(parts, k, ready); // each part is summed
    for (int i = 0; i < k; i++)
        for (int turn = 1; turn < k; turn++) {
            int owner = (i + turn) % k;
            Range part = equal_range(numel(full[0]), k, owner);
            device_copy_after(ready[owner], full[i]->device, part_data(full[i], part),
                              parts[owner]->data, part.count * sizeof(float));
        }
}

// Waits until all others have read data[i]: what comes next may overwrite it.
static void wait_for_readers(Tensor *const data[], int k) {
    Event done[MAX_DEVICES];
    record_all(data, k, done);
    for (int i = 0; i < k; i++)
        for (int reader = 0; reader < k; reader++) device_wait(data[i]->device, done[reader]);
}

// Part j of data[j], as a view.
static Tensor part_of(const Tensor *data, int k, int j) {
    Range part = equal_range(numel(data), k, j);
    return (Tensor){.data = part_data(data, part),
                    .ndim = 1,
                    .shape = {(int)part.count},
                    .device = data->device};
}

void allreduce_sharded(Tensor *const data[], int k) {
    Tensor *received[MAX_DEVICES] = {NULL}, *parts[MAX_DEVICES], part[MAX_DEVICES];
    for (int j = 0; j < k; j++) {
        part[j] = part_of(data[j], k, j);
        parts[j] = &part[j];
        received[j] = arena_tensor(data[j]->device, 2, (int[]){k - 1, part[j].shape[0]}, false);
    }
    sum_parts(data, k, received);
    // The sums overwrite what their owners have read: a sum is ready only after that.
    collect_parts(data, parts, k);
    wait_for_readers(data, k);
}

// ## The two halves

// Whether memory for device j's part has the size of that part.
static void check_part(const Tensor *part, const char *what, size_t floats, int j) {
    if (numel(part) != floats)
        die("a device's part of a vector is equal_range(n, k, j)", "%s %d has %zu floats, not %zu",
            what, j, numel(part), floats);
}

// If a sum is to be somewhere else, it is copied there.
static void move(Tensor *to, const float *from) {
    if (to->data == from) return;
    device_copy(to->device, to->data, to->device, from, tensor_bytes(to));
}

void reduce_scatter(Tensor *const sums[], Tensor *const data[], Tensor *const received[], int k) {
    size_t n = numel(data[0]);
    for (int j = 0; j < k; j++) {
        size_t floats = equal_range(n, k, j).count;
        check_part(sums[j], "reduce_scatter: sum", floats, j);
        check_part(received[j], "reduce_scatter: room of device", (size_t)(k - 1) * floats, j);
    }
    sum_parts(data, k, received);
    for (int j = 0; j < k; j++) move(sums[j], part_of(data[j], k, j).data);
    wait_for_readers(data, k);
}

void all_gather(Tensor *const full[], Tensor *const parts[], int k) {
    for (int j = 0; j < k; j++) {
        Tensor mine = part_of(full[j], k, j);
        check_part(parts[j], "all_gather: part", numel(&mine), j);
        move(&mine, parts[j]->data);
    }
    collect_parts(full, parts, k);
    wait_for_readers(full, k);
}

// ## The formulas
//
// A device sends all parts but its own to their owners, then its own to all others. It receives the
// same number.

Traffic reduce_scatter_floats(size_t n, int k, int i) {
    size_t own = equal_range(n, k, i).count;
    return (Traffic){.sent = n - own, .received = (size_t)(k - 1) * own};
}

Traffic all_gather_floats(size_t n, int k, int i) {
    Traffic back = reduce_scatter_floats(n, k, i);
    return (Traffic){.sent = back.received, .received = back.sent};
}

Traffic allreduce_sharded_floats(size_t n, int k, int i) {
    Traffic t = reduce_scatter_floats(n, k, i), back = all_gather_floats(n, k, i);
    return (Traffic){t.sent + back.sent, t.received + back.received};
}
