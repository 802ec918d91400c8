// allreduce_star.c: the book's allreduce. Simple, and slow: device 0 does all the work.
//
//     1 ──┐         ┌─▶ 1
//     2 ──┼─▶ 0 ────┼─▶ 2
//     3 ──┘         └─▶ 3
#include "allreduce.h"

// A vector of more than 4 MiB goes there and back in pieces: while device 0 receives and adds one,
// the others already fetch the sum of the one before.
void allreduce_star(Tensor *const data[], int k) {
    if (k == 1) return;
    Event ready[MAX_DEVICES], done[MAX_DEVICES];
    Tensor *sum = data[0], *place = place_to_receive(sum);
    record_all(data, k, ready); // each vector is complete
    for (Part piece = {0, 0}; next_piece(sum, &piece);) {
        // In the order of the devices, so that the same k gives the same bits each time.
        for (int i = 1; i < k; i++) receive_and_add(sum, data[i], ready[i], piece, place);
        // Into the memory of data[i]: whoever holds a pointer to it must see the sum.
        Event summed = device_record(sum->device);
        for (int i = 1; i < k; i++)
            device_copy_after(summed, data[i]->device, part_data(data[i], piece),
                              part_data(sum, piece), piece.count * sizeof(float));
    }
    // What comes next may overwrite the sum, so it waits until all others have it.
    record_all(data, k, done);
    for (int i = 1; i < k; i++) device_wait(sum->device, done[i]);
}

Traffic allreduce_star_floats(size_t n, int k, int i) {
    size_t floats = i == 0 ? (size_t)(k - 1) * n : n;
    if (k == 1) floats = 0;
    return (Traffic){.sent = floats, .received = floats};
}
