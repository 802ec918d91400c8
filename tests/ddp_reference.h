// ddp_reference.h: PyTorch's figures of DistributedDataParallel (tests/reference/ddp.safetensors;
// make_ddp.py there says what it holds), and how ours are compared with them.
#pragma once

#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "figures.h"
#include "formula.h"

// ---- training -----------------------------------------------------------------------------------

enum { STEPS = 5 };

typedef struct Training {
    const NetworkKind *kind;
    int k; // ranks
    Module *net;
    Device *devices[MAX_DEVICES]; // of each rank
} Training;

// The start of make_ddp.py.
static inline Module *network_at_start(const NetworkKind *kind) {
    Module *net = kind->make(10);
    fill_network(net);
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) {
        Tensor *start = all.list[p]->start;
        for (size_t i = 0; i < numel(start) && ends_with(all.list[p]->name, "bias"); i++)
            start->data[i] += 0.25f;
    }
    return net;
}

// What a parameter is now, less what it was at the start: at the places that the file has, and the
// length of all of it. Each number may be wrong by `each`, and all of it by `allowed` more.
static inline void check_learned(const Training *t, const Parameter *p, const float *now,
                                 double allowed, double each) {
    const char *name = t->kind->name;
    const SafetensorsEntry *some = find_part(false, "%s.%d.change.%s", name, t->k, p->name);
    const SafetensorsEntry *index = some ? NULL : part("%s.index.%s", name, p->name);
    if (!some) some = part("%s.%d.change.%s.value", name, t->k, p->name);
    const SafetensorsEntry *norm = part("%s.%d.norm.%s", name, t->k, p->name);
    const float *start = p->start->data;
    double squares = 0;
    size_t n = numel(p->start);
    for (size_t i = 0; i < n; i++) squares += pow((double)now[i] - (double)start[i], 2);
    check(norm->name, 0, sqrt(squares), (double)norm->values[0], allowed + each * sqrt((double)n));
    assert_int_equal(some->count, index ? index->count : n);
    for (size_t i = 0; i < some->count; i++) {
        size_t at = index ? (size_t)index->values[i] : i;
        check(some->name, at, (double)now[at] - (double)start[at], (double)some->values[i],
              allowed + each);
    }
}
