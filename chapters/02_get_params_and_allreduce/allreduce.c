// allreduce.c: the book's allreduce.
#include "allreduce.h"

#include "../../common/autograd.h"
#include "../../common/error.h"

void allreduce(Tensor *const data[], int k) {
    // What arrives from the others needs a place on device 0: a tensor of this step's arena.
    Device *hub = data[0]->device;
    Tensor *received = k > 1 ? arena_tensor(hub, data[0]->ndim, data[0]->shape, false) : NULL;

    // In the order of the devices, so that the same k gives the same bits each time.
    for (int i = 1; i < k; i++) {
        CHECK(data[i]->device != hub, "allreduce() takes one tensor per device");
        tensor_copy(received, data[i]);
        launch(hub, add, .y = data[0]->data, .x = received->data, .n = numel(received));
    }
    // Into the memory of data[i]: whoever holds a pointer to it must see the sum.
    for (int i = 1; i < k; i++) tensor_copy(data[i], data[0]);
}
