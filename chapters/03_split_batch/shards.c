// shards.c: see shards.h.
#include "shards.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"

#include <stdlib.h>
#include <string.h>

Tensor *arange(int rows, int cols) {
    Tensor *t = cols ? tensor_new(host(), rows, cols) : tensor_new(host(), rows);
    for (size_t i = 0; i < numel(t); i++) t->data[i] = (float)i;
    return t;
}

void open_step(Device *devices[], int k) {
    open_devices(devices, k);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
}

int check_shards(const Tensor *whole, Tensor *const shards[], int k) {
    size_t row = whole->shape[0] ? numel(whole) / (size_t)whole->shape[0] : 0, next = 0;
    int rows = 0;
    for (int i = 0; i < k; i++) {
        size_t n = numel(shards[i]);
        CHECK(next + n <= numel(whole), "the shards have no more rows than there are");
        CHECK(n == (size_t)shards[i]->shape[0] * row, "a shard has whole rows");
        float *values = tensor_values(shards[i]);
        for (size_t j = 0; j < n && has_values(shards[i]->device); j++)
            CHECK(values[j] == whole->data[next + j], "each row is where it belongs");
        free(values);
        next += n;
        rows += shards[i]->shape[0];
    }
    CHECK(next == numel(whole), "no rows are missing");
    return rows;
}
