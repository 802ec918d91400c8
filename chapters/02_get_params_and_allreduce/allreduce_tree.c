// allreduce_tree.c: sums in pairs, so that the number of steps grows with $\log_2 k$. What is wrong
// with the ring: $2 (k-1)$ steps one after the other. Each costs the start of a transfer, however
// few bytes there are, and with 1000 devices there are 1998 of them; here there are 20.
//
//     0 ◀─ 1   2 ◀─ 3   4 ◀─ 5   6 ◀─ 7     distance 1, four pairs side by side
//     0 ◀───── 2        4 ◀───── 6          distance 2
//     0 ◀────────────── 4                   distance 4; then the sum goes back by the same arrows
#include "allreduce.h"

static void add_whole(Tensor *sum, const Tensor *from, Tensor *place) {
    Event ready = device_record(from->device);
    for (int p = 0; p < num_pieces(sum); p++)
        receive_and_add(sum, from, ready, piece_of(sum, p), place);
    device_wait(from->device, device_record(sum->device)); // then it may be overwritten
}

void allreduce_tree(Tensor *const data[], int k) {
    // Only a device with an even number ever receives; the first time from its neighbour.
    Tensor *place[MAX_DEVICES] = {NULL};
    for (int i = 0; i + 1 < k; i += 2) place[i] = place_to_receive(data[i]);

    // At one distance no device is in two pairs, so copies that make both sides wait hold up no
    // one.
    int distance = 1;
    for (; distance < k; distance *= 2)
        for (int i = 0; i + distance < k; i += 2 * distance)
            add_whole(data[i], data[i + distance], place[i]);

    for (distance /= 2; distance >= 1; distance /= 2)
        for (int i = 0; i + distance < k; i += 2 * distance)
            tensor_copy(data[i + distance], data[i]);
}

// n floats on each edge of the tree, once up and once down. Device i has edges to i + 1, i + 2,
// i + 4, ... as long as it is the left one of these pairs, and but for device 0 one to the left.
Traffic allreduce_tree_floats(size_t n, int k, int i) {
    size_t edges = i > 0;
    for (int distance = 1; i % (2 * distance) == 0 && i + distance < k; distance *= 2) edges++;
    return (Traffic){.sent = edges * n, .received = edges * n};
}
