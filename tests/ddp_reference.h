// ddp_reference.h: PyTorch's figures of DistributedDataParallel (tests/reference/ddp.safetensors;
// make_ddp.py there says what it holds), and how ours are compared with them.
#ifndef DDP_REFERENCE_H
#define DDP_REFERENCE_H

#include "cases.h"

#include "common/data/safetensors.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/08_many_machines/step.h"
#include "formula.h"

static SafetensorsFile reference;

__attribute__((format(printf, 2, 3))) static inline const SafetensorsEntry *
find_part(bool must_be_there, const char *format, ...) {
    char key[128];
    va_list args;
    va_start(args, format);
    vsnprintf(key, sizeof key, format, args);
    va_end(args);
    const SafetensorsEntry *entry = safetensors_find(&reference, key);
    if (!entry && must_be_there)
        fail_msg("the file lacks %s: make it again (tests/reference)", key);
    return entry;
}
#define part(...) find_part(true, __VA_ARGS__)

// ---- training -----------------------------------------------------------------------------------

enum { STEPS = 5 };

// PyTorch's figures are in float64. Ours may be wrong by a part of what is measured, and each
// update of a parameter rounds. In ResNet-18 some activation is within a rounding error of a relu's
// kink now and then; so PyTorch's own float32 is wrong by 7e-4 of the norm of what a tensor
// learned.
static const double reference_tolerance = 1e-4, rounding = STEPS * 0x1p-24;
static const double tolerance_of_changes[NUM_NETWORKS] = {1e-4, 3e-3};

typedef struct Training {
    const NetworkKind *kind;
    int k, first, count; // of k ranks this program has so many, from the first on
    Module *net;
    Device *devices[MAX_DEVICES]; // of each rank
    Ddp *ddp;                     // all ranks, or
    RankNet *rank_net;            // one
} Training;

// Written so that a NaN fails, on either side.
static inline void check(const Training *t, const char *what, size_t i, double ours, double theirs,
                         double allowed) {
    if (!(fabs(ours - theirs) <= allowed))
        fail_msg("%s on %d ranks: %s[%zu] is %.9g, PyTorch has %.9g (allowed difference %.1e)",
                 t->kind->title, t->k, what, i, ours, theirs, allowed);
}

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

// Ours is the sum over the rows of a rank, PyTorch's the mean.
static inline void check_loss(const Training *t, int step, int rank, float ours, int rows) {
    const SafetensorsEntry *expected = part("%s.%d.losses", t->kind->name, t->k);
    size_t at = (size_t)(step * t->k + rank);
    assert_int_equal(expected->count, STEPS * t->k);
    check(t, expected->name, at, (double)ours * t->k / rows, (double)expected->values[at],
          reference_tolerance);
}

// What a parameter is now, less what it was at the start. Differences are measured by how much it
// learned, all in all. The bias of a convolution before a batch norm has the gradient 0, where
// rounding is all there is: so it is measured by its weight.
static inline void check_change(const Training *t, int number, int rank) {
    const Parameter *const *list = (const Parameter *const *)parameters_of(t->net).list;
    const Parameter *p = list[number];
    bool is_noise = t->kind == &networks[1] && number > 0 && list[number - 1]->start->ndim == 4;
    const char *name = t->kind->name;
    const SafetensorsEntry *some = find_part(false, "%s.%d.change.%s", name, t->k, p->name);
    const SafetensorsEntry *index = some ? NULL : part("%s.index.%s", name, p->name);
    if (!some) some = part("%s.%d.change.%s.value", name, t->k, p->name);
    const SafetensorsEntry *norm = part("%s.%d.norm.%s", name, t->k, p->name);
    const SafetensorsEntry *measure =
        part("%s.%d.norm.%s", name, t->k, list[is_noise ? number - 1 : number]->name);
    double squares = 0, largest = 0;
    size_t n = numel(p->start);
    const float *now = values_of(parameter_data(p, t->devices[rank])), *start = p->start->data;
    for (size_t i = 0; i < n; i++) {
        squares += pow((double)now[i] - (double)start[i], 2);
        largest = fmax(largest, fabs((double)start[i]));
    }
    double allowed = (double)measure->values[0] * tolerance_of_changes[t->kind - networks];
    check(t, norm->name, 0, sqrt(squares), (double)norm->values[0],
          allowed + rounding * largest * sqrt((double)n));
    assert_int_equal(some->count, index ? index->count : n);
    for (size_t i = 0; i < some->count; i++) {
        size_t at = index ? (size_t)index->values[i] : i;
        check(t, p->name, at, (double)now[at] - (double)start[at], (double)some->values[i],
              allowed + rounding * largest);
    }
}

// Of batch norm. A rank's are those of rank 0 before the last step, and its own rows in it.
static inline void check_statistics(const Training *t, const Parameter *p, int rank) {
    const SafetensorsEntry *expected = part("%s.%d.rank.%d.%s", t->kind->name, t->k, rank, p->name);
    const float *ours = values_of(parameter_data(p, t->devices[rank]));
    double largest = 0;
    assert_int_equal(numel(p->start), expected->count);
    for (size_t i = 0; i < expected->count; i++)
        largest = fmax(largest, fabs((double)expected->values[i]));
    for (size_t i = 0; i < expected->count; i++)
        check(t, expected->name, i, (double)ours[i], (double)expected->values[i],
              reference_tolerance * largest);
}

// All that a rank has in the end. (Of the statistics the file has the first and the last rank's.)
static inline void check_rank(const Training *t, int rank) {
    Parameters all = parameters_of(t->net);
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained)
            check_change(t, p, rank);
        else if (rank == 0 || rank == t->k - 1)
            check_statistics(t, all.list[p], rank);
}

static inline void check_training(const Training *t) {
    Tensor *X, *y, *Xs[MAX_DEVICES], *ys[MAX_DEVICES], *losses[MAX_DEVICES];
    int rows = (int)part("%s.rows", t->kind->name)->values[0];
    float lr = part("%s.lr", t->kind->name)->values[0];
    formula_batch(STEPS * rows, &X, &y);
    keep(X), keep(y);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < t->count; i++) {
            Device *device = t->devices[t->first + i];
            Range own = equal_range(rows, t->k, t->first + i);
            own.first += step * rows;
            begin_step(device);
            Xs[i] = rows_on(X, own, device);
            ys[i] = rows_on(y, own, device);
        }
        if (t->ddp)
            ddp_step(t->ddp, Xs, ys, lr, rows, losses);
        else
            rank_net_step(t->rank_net, Xs[0], ys[0], lr, rows, losses);
        for (int i = 0; i < t->count; i++) check_loss(t, step, t->first + i, item(losses[i]), rows);
    }
    check_rank(t, t->first);
    check_rank(t, t->first + t->count - 1);
    free_kept();
}

#endif
