// formula.h: networks and images of numbers that a formula gives, the same ones as in
// tests/reference/resnet18.py. So what PyTorch makes of them can be stored without them.
#pragma once

#include "common/tensor/nn.h"
#include "test.h"

static inline double formula(uint32_t number, uint32_t index) {
    uint32_t x = index + number * 0x9e3779b9u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (double)x / 2147483648.0 - 1;
}

static inline bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

static inline void fill(Tensor *t, uint32_t number) {
    static const struct {
        const char *end;
        double center, factor;
    } kinds[] = {{"running_var", 1, 0.5}, {"running_mean", 0, 0.1}, {"weight", 0.3, 0.15}};
    double center = 0.5, factor = 0.1; // of biases
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (ends_with(t->name, kinds[i].end)) center = kinds[i].center, factor = kinds[i].factor;
    if (t->ndim > 1) center = 0, factor = sqrt(6 / ((double)numel(t) / t->shape[0]));
    for (size_t i = 0; i < numel(t); i++)
        t->data[i] = (float)(center + factor * formula(number, (uint32_t)i));
}

// The start of a network.
static inline void fill_network(Module *net) {
    initialize(net, 0);
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) fill(all.list[p]->start, (uint32_t)p);
}

// Images (rows,1,28,28) and labels, on the host.
static inline void formula_batch(int rows, Tensor **X, Tensor **y) {
    *X = tensor_new(host(), rows, 1, 28, 28);
    *y = tensor_new(host(), rows);
    for (size_t i = 0; i < numel(*X); i++)
        (*X)->data[i] = (float)((formula(1000, (uint32_t)i) + 1) / 2);
    for (int i = 0; i < rows; i++) (*y)->data[i] = (float)(i % 10);
}
