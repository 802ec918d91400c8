// allreduce_tree.c: sums in pairs, so the number of steps grows with $\log_2 k$: 20 for 1024
// devices.
//
//     0 ◀─ 1   2 ◀─ 3   4 ◀─ 5   6 ◀─ 7     distance 1, four pairs side by side
//     0 ◀───── 2        4 ◀───── 6          distance 2
//     0 ◀────────────── 4                   distance 4; then the sum goes back by the same arrows
#include "allreduce.h"

// sum += from, piece by piece; `from` may be overwritten afterwards.
static void add_whole(Tensor *sum, const Tensor *from, Tensor *place) {
    Event ready = device_record(from->device);
    for (int p = 0; p < num_pieces(sum); p++)
        receive_and_add(sum, from, ready, piece_of(sum, p), place);
    device_wait(from->device, device_record(sum->device));
}

void allreduce_tree(Tensor *const data[], int k) {
    // Give each device that will receive, every second one, a place for what arrives.
    Tensor *place[MAX_DEVICES] = {NULL};
    for (int i = 0; i + 1 < k; i += 2) place[i] = place_to_receive(data[i]);

    // Add up pairs, at distance 1, 2, 4, ... No device is in two pairs at the same distance.
    int distance = 1;
    for (; distance < k; distance *= 2)
        for (int i = 0; i + distance < k; i += 2 * distance)
            add_whole(data[i], data[i + distance], place[i]);

    // Send the sum back along the same pairs.
    for (distance /= 2; distance >= 1; distance /= 2)
        for (int i = 0; i + distance < k; i += 2 * distance)
            tensor_copy(data[i + distance], data[i]);
}

// A device sends n floats on each of its edges in the tree. Device i has edges to i + 1, i + 2,
// i + 4, ... as long as it is the left one of these pairs, and one to the left unless it is device
// 0.
Traffic allreduce_tree_floats(size_t n, int k, int i) {
    size_t edges = i > 0;
    for (int distance = 1; i % (2 * distance) == 0 && i + distance < k; distance *= 2) edges++;
    return (Traffic){.sent = edges * n, .received = edges * n};
}
