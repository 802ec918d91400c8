// # Exercise 3: an allreduce with which all devices work
//
// Book: "Training on Multiple GPUs" (multiple-gpus), exercise 3: "Implement a more efficient
// allreduce function that aggregates different parameters on different GPUs. Why is it more
// efficient?"
//
// Difficulty: ★★★☆
//
// How to run
//   make exercise-04-3                       the question, the answer, the evidence
//   make exercise-04-3 ARGS=--check          only check the solution: a second
//   make exercise-04-3 ARGS='--devices 8'    on 8 devices instead of 4
//
// The book's allreduce() is a star: device 0 receives all gradients, adds them up and sends the
// sums out, while the others and the links between them are idle. Here different parameters are
// summed on different devices. That alone does not balance the work, because one matrix of LeNet
// has 79% of the parameters; so each parameter is also cut into k parts. Chapter 2 goes on from
// here.
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

// As the book's allreduce(): data[i] is on device i, and afterwards each holds the sum of all. But
// the sum is computed on device `hub`, not on device 0. What arrives there needs a place:
// arena_tensor(device, data[hub]->ndim, data[hub]->shape, false). launch(device, add, .y, .x, .n)
// adds x to y; tensor_copy(to, from) copies between devices. Any order of additions will do, but
// all devices must end with the same bits.
void allreduce_at(Tensor *const data[], int k, int hub) {
    // SOLUTION
    Tensor *sum = data[hub];
    Tensor *received = arena_tensor(sum->device, sum->ndim, sum->shape, false);
    for (int i = 0; i < k; i++) {
        if (i == hub) continue;
        tensor_copy(received, data[i]);
        launch(sum->device, add, .y = sum->data, .x = received->data, .n = numel(sum));
    }
    for (int i = 0; i < k; i++)
        if (i != hub) tensor_copy(data[i], sum);
    // END SOLUTION
}

// The same sum, but each device is the hub of one part of about n/k of the n elements;
// equal_range(n, k, j) of common/base/range.h says which elements part j has. A part can be made a
// tensor of its own, which points into data[i]: {.data, .ndim = 1, .shape, .device}.
void allreduce_parts(Tensor *const data[], int k) {
    // SOLUTION
    for (int j = 0; j < k; j++) {
        Range part = equal_range((long)numel(data[0]), k, j);
        Tensor parts[MAX_DEVICES], *part_of_device[MAX_DEVICES];
        for (int i = 0; i < k; i++) {
            parts[i] = (Tensor){.data = data[i]->data + part.first,
                                .ndim = 1,
                                .shape = {part.count},
                                .device = data[i]->device};
            part_of_device[i] = &parts[i];
        }
        allreduce_at(part_of_device, k, j);
    }
    // END SOLUTION
}
