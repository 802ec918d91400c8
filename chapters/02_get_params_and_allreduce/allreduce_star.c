// allreduce_star.c: the book's allreduce. Simple, and slow: device 0 does all the work.
//
//     1 ──┐         ┌─▶ 1
//     2 ──┼─▶ 0 ────┼─▶ 2
//     3 ──┘         └─▶ 3
#include "allreduce.h"

void allreduce_star(Tensor *const data[], int k) {
    // In the order of the devices, so that the same k gives the same bits each time.
    Tensor *place = k > 1 ? place_to_receive(data[0]) : NULL;
    for (int i = 1; i < k; i++) receive_and_add(data[0], data[i], place);
    // Into the memory of data[i]: whoever holds a pointer to it must see the sum.
    for (int i = 1; i < k; i++) tensor_copy(data[i], data[0]);
}

Traffic allreduce_star_floats(size_t n, int k, int i) {
    size_t floats = i == 0 ? (size_t)(k - 1) * n : n;
    if (k == 1) floats = 0;
    return (Traffic){.sent = floats, .received = floats};
}
