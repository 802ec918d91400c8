// allreduce_star.c: the book's allreduce. Simple, and slow: device 0 does all the work.
//
//     1 ──┐         ┌─▶ 1
//     2 ──┼─▶ 0 ────┼─▶ 2
//     3 ──┘         └─▶ 3
#include "allreduce.h"

#include "common/tensor/autograd.h"

// ## The book's lines
//
// `allreduce_book()` has them. In Python `.to()` makes a new tensor; here `received` is the place
// for what arrives. (Two GPUs have *peer-to-peer access* if each can reach the other's memory over
// the link between them. Without it, what one sends to the other goes through the host's memory.)

void allreduce_book(Tensor *const data[], int k) {
    Tensor *received = arena_tensor(data[0]->device, data[0]->ndim, data[0]->shape, false);
    for (int i = 1; i < k; i++) {
        tensor_copy(received, data[i]);
        launch(data[0]->device, add, .y = data[0]->data, .x = received->data, .n = numel(received));
    }
    for (int i = 1; i < k; i++) tensor_copy(data[i], data[0]);
}

// ## The same, in pieces
//
// The defect of the book's lines: a vector is received as a whole before its first number is added.
// So device 0 needs room for a second vector, and its cache has forgotten the first numbers by the
// time they are added. And nothing goes back to the others before the last number of the last
// vector has come in, though links can carry both directions at once.
//
// The remedy: vectors come in pieces of 4 MiB. A piece is added while the cache still has it, and
// while device 0 receives and adds the next one, the others already fetch the sum of this one. A
// `tensor_copy()` would let the sender of a piece wait until it has arrived. Here the order is kept
// by hand instead: a transfer waits for an *event*, a point in another device's queue (see
// `device_copy_after()` in `device.h`).

void allreduce_star(Tensor *const data[], int k) {
    if (k == 1) return;
    Event ready[MAX_DEVICES], done[MAX_DEVICES];
    Tensor *sum = data[0], *place = place_to_receive(sum);
    record_all(data, k, ready); // each vector is complete
    for (int p = 0; p < num_pieces(sum); p++) {
        Range piece = piece_of(sum, p);
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
