// accumulate.c: see accumulate.h.
//
// A minibatch of 1024 images wants four devices with room for 256 each. Who has one device goes
// through four parts of 256, one after the other, and makes one update when the gradients of all
// four are added up. It takes four times as long, and that is all. (Chapter 6 has this on several
// ranks as `ddp_no_sync()`, and its exercise 4 compares the sum with that of the minibatch in one
// go. Here it is compared with four ranks.)
#include "accumulate.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"

// ## Whose bits?
//
// A sum of floats depends on the order of its additions. Chapter 2's star adds rank after rank:
// ((0 + 1) + 2) + 3. One device that keeps each part's gradients apart, and adds them in that
// order, makes the same additions with the same numbers: so it has the bits of four ranks, after
// any number of steps. (`sharded` has the star's bits. The tree adds (0 + 1) + (2 + 3), and the
// ring begins with another rank in each piece of the vector: other orders, other last bits.)
//
// The usual way keeps nothing apart: backward adds to the gradient that is there. That saves a
// vector and two passes over it. Has it the same bits? It depends on the kernels. One that begins
// with what is there and adds row after row makes ((0 + row) + row) + row, another order. Ours for
// CPUs sum over the part's rows first, in a tree of their own (kernels/cpu/cpu.h), and add that sum
// to what is there, once: the order above. So here both ways have the ranks' bits, for LeNet with
// parts of 4 to 750 images and for ResNet-18 with parts of 4 to 10. Of the kernels of a GPU's
// library nobody promises it. Kept apart, there is nothing to promise: a part's gradients begin at
// zero, on one device as on a rank.
//
// All this is about gradients. Batch norm has *running statistics*, too, and they are no sums: each
// part moves them a tenth of the way to its own mean, one part after the other, where each of four
// ranks moves its own, once. Training does not read them, so the parameters are the ranks' to the
// bit; but the network that is evaluated is another one. And the statistics that training does read
// are those of a part, as on ranks, not of the whole minibatch. (Hoffer and others call
// that *ghost batch normalization*, and do it on purpose [@hoffer2017].)

Accumulator accumulator_new(Module *net, Device *device, AccumulateOrder order) {
    place_on(net, device);
    Accumulator a = {.net = net, .device = device, .order = order};
    if (order == PARTS_APART) a.sum = tensor_zeros_like(flat_parameters(net, device).grad);
    a.loss = tensor_new(device, 1);
    tensor_fill(a.loss, 0);
    return a;
}

void accumulator_free(Accumulator *a) {
    tensor_free(a->sum);
    tensor_free(a->loss);
}

// ## A part
//
// What the part before has left goes to the sum first. The last part's gradients stay where they
// are until the end: a minibatch of one part copies nothing.

static void add_to(Tensor *sum, const Tensor *x) {
    launch(sum->device, add, .y = sum->data, .x = x->data, .n = numel(sum));
}

static void keep_part(Accumulator *a) {
    if (a->order == PARTS_IN_PLACE || a->parts == 0) return;
    Tensor *grad = flat_parameters(a->net, a->device).grad;
    if (a->parts == 1)
        tensor_copy(a->sum, grad);
    else
        add_to(a->sum, grad);
    launch(a->device, fill, .x = grad->data, .value = 0, .n = numel(grad));
}

void accumulate(Accumulator *a, const Tensor *X, const Tensor *y) {
    Tensor *X_here, *y_here;
    keep_part(a);
    begin_step(a->device);
    split_batch(X, y, &a->device, 1, &X_here, &y_here);
    Tensor *loss = sum(cross_entropy(forward(a->net, X_here), y_here));
    backward(loss);
    add_to(a->loss, loss);
    a->parts++;
    a->rows += X->shape[0];
}

void accumulate_batch(Accumulator *a, const Tensor *X, const Tensor *y, int parts) {
    for (int i = 0; i < parts; i++) {
        Range rows = equal_range(X->shape[0], parts, i);
        const Tensor X_part = rows_of(X, rows), y_part = rows_of(y, rows);
        accumulate(a, &X_part, &y_part);
    }
}

// ## The end
//
// The last addition: what was kept apart, plus the last part. (A sum of two has the same bits in
// either order.)

int accumulate_end(Accumulator *a, double *loss) {
    CHECK(a->parts > 0, "accumulate() a part first");
    if (a->order == PARTS_APART && a->parts > 1)
        add_to(flat_parameters(a->net, a->device).grad, a->sum);
    if (loss) *loss = (double)item(a->loss);
    launch(a->device, fill, .x = a->loss->data, .value = 0, .n = 1);
    int rows = (int)a->rows;
    a->parts = 0;
    a->rows = 0;
    return rows;
}
