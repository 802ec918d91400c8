// solution.c: an allreduce around any device, and one with which all devices work.
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

void allreduce_at(Tensor *const data[], int k, int hub) {
    Tensor *sum = data[hub];
    Tensor *received = arena_tensor(sum->device, sum->ndim, sum->shape, false);
    for (int i = 0; i < k; i++) {
        if (i == hub) continue;
        tensor_copy(received, data[i]);
        launch(sum->device, add, .y = sum->data, .x = received->data, .n = numel(sum));
    }
    for (int i = 0; i < k; i++)
        if (i != hub) tensor_copy(data[i], sum);
}

void allreduce_parts(Tensor *const data[], int k) {
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
}
