// allreduce_star.c: the book's allreduce, and the same in pieces. Device 0 does all the work.
//
//     1 ──┐         ┌─▶ 1
//     2 ──┼─▶ 0 ────┼─▶ 2
//     3 ──┘         └─▶ 3
#include "allreduce.h"

#include "common/tensor/autograd.h"

void allreduce_book(Tensor *const data[], int k) {
    Tensor *received = arena_tensor(data[0]->device, data[0]->ndim, data[0]->shape, false);
    // Add every vector to device 0's.
    for (int i = 1; i < k; i++) {
        tensor_copy(received, data[i]);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
    }
    // Send the sum to every device.
    for (int i = 1; i < k; i++) tensor_copy(data[i], data[0]);
}

// ## The same in pieces
//
// `allreduce_book()` adds nothing before a whole vector has arrived, and sends nothing back before
// the last vector has. So device 0 needs room for a second vector, and its link works in one
// direction at a time. In pieces of 4 MiB the link works in both: while device 0 receives and adds
// a piece, the others fetch the sum of the piece before.
//
// `tensor_copy()` would make the sender wait until the piece has arrived. Here each transfer waits
// for an *event*, a point in another device's queue (see `device_copy_after()` in `device.h`).

void allreduce_star(Tensor *const data[], int k) {
    if (k == 1) return;
    Event ready[MAX_DEVICES], done[MAX_DEVICES];
    Tensor *sum = data[0], *place = place_to_receive(sum);
    record_all(data, k, ready); // each vector is complete
    for (int p = 0; p < num_pieces(sum); p++) {
        Range piece = piece_of(sum, p);
        // Add in the order of the devices, so that the same k always gives the same bits.
        for (int i = 1; i < k; i++) receive_and_add(sum, data[i], ready[i], piece, place);
        // Send the sum back, into the memory of data[i].
        Event summed = device_record(sum->device);
        for (int i = 1; i < k; i++)
            device_copy_after(summed, data[i]->device, part_data(data[i], piece),
                              part_data(sum, piece), piece.count * sizeof(float));
    }
    // Wait until all have the sum: what comes next may overwrite it.
    record_all(data, k, done);
    for (int i = 1; i < k; i++) device_wait(sum->device, done[i]);
}

Traffic allreduce_star_floats(size_t n, int k, int i) {
    size_t floats = i == 0 ? (size_t)(k - 1) * n : n;
    if (k == 1) floats = 0;
    return (Traffic){.sent = floats, .received = floats};
}
