// ddp_reference.h: PyTorch's figures of DistributedDataParallel (tests/reference/ddp.safetensors;
// make_ddp.py there says what it holds), and how ours are compared with them.
#ifndef DDP_REFERENCE_H
#define DDP_REFERENCE_H

#include "test.h"

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "formula.h"

static SafetensorsFile reference;

static inline const SafetensorsEntry *part_or_null(const char *format, va_list args) {
    char key[128];
    vsnprintf(key, sizeof key, format, args);
    return safetensors_find(&reference, key);
}

__attribute__((format(printf, 1, 2))) static inline bool has_part(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const SafetensorsEntry *entry = part_or_null(format, args);
    va_end(args);
    return entry;
}

__attribute__((format(printf, 1, 2))) static inline const SafetensorsEntry *part(const char *format,
                                                                                 ...) {
    va_list args;
    va_start(args, format);
    const SafetensorsEntry *entry = part_or_null(format, args);
    va_end(args);
    if (!entry) fail_msg("ddp.safetensors lacks %s...: run make_ddp.py again", format);
    return entry;
}

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
    int k;
    Module *net;
    Ddp *ddp;
    Device *devices[MAX_DEVICES]; // of each rank
    double worst;                 // difference, as a part of what is allowed
} Training;

// Written so that a NaN fails, on either side.
static inline void check(Training *t, const char *what, size_t i, double ours, double theirs,
                         double allowed) {
    double difference = fabs(ours - theirs);
    if (!(difference <= allowed))
        fail_msg("%s on %d ranks: %s[%zu] is %.9g, PyTorch has %.9g (allowed difference %.1e)",
                 t->kind->title, t->k, what, i, ours, theirs, allowed);
    t->worst = fmax(t->worst, difference / allowed);
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

// The size that differences of a parameter are measured by: how much it learned, all in all. The
// bias of a convolution before a batch norm has the gradient 0, where rounding is all there is: so
// it is measured by its weight.
static inline double size_of_change(const Training *t, int p) {
    Parameters all = parameters_of(t->net);
    bool is_noise = t->kind == &networks[1] && p > 0 && all.list[p - 1]->start->ndim == 4;
    const char *name = all.list[is_noise ? p - 1 : p]->name;
    return (double)part("%s.%d.norm.%s", t->kind->name, t->k, name)->values[0];
}

// What a parameter is now, less what it was at the start; free() it.
static inline double *change_of(const Parameter *p, const Device *device, double *norm,
                                double *largest) {
    float *now = tensor_values(parameter_data(p, device));
    size_t n = numel(p->start);
    double *change = xmalloc(n * sizeof *change), squares = 0;
    *largest = 0;
    for (size_t i = 0; i < n; i++) {
        change[i] = (double)now[i] - (double)p->start->data[i];
        squares += change[i] * change[i];
        *largest = fmax(*largest, fabs((double)p->start->data[i]));
    }
    *norm = sqrt(squares);
    free(now);
    return change;
}

static inline void check_change(Training *t, int number, int rank) {
    const Parameter *p = parameters_of(t->net).list[number];
    const char *name = t->kind->name;
    bool whole = has_part("%s.%d.change.%s", name, t->k, p->name);
    const SafetensorsEntry *index = whole ? NULL : part("%s.index.%s", name, p->name);
    const SafetensorsEntry *some =
        part("%s.%d.change.%s%s", name, t->k, p->name, whole ? "" : ".value");
    const SafetensorsEntry *all = part("%s.%d.norm.%s", name, t->k, p->name);
    double norm, largest, *change = change_of(p, t->devices[rank], &norm, &largest);
    double allowed = size_of_change(t, number) * tolerance_of_changes[t->kind - networks];
    size_t n = numel(p->start);
    check(t, all->name, 0, norm, (double)all->values[0],
          allowed + rounding * largest * sqrt((double)n));
    assert_int_equal(some->count, whole ? n : index->count);
    for (size_t i = 0; i < some->count; i++) {
        size_t at = whole ? i : (size_t)index->values[i];
        check(t, p->name, at, change[at], (double)some->values[i], allowed + rounding * largest);
    }
    free(change);
}

// Of batch norm. A rank's are those of rank 0 before the last step, and its own rows in it.
static inline void check_statistics(Training *t, const Parameter *p, int rank) {
    const SafetensorsEntry *expected = part("%s.%d.rank.%d.%s", t->kind->name, t->k, rank, p->name);
    float *ours = tensor_values(parameter_data(p, t->devices[rank]));
    double largest = 0;
    assert_int_equal(numel(p->start), expected->count);
    for (size_t i = 0; i < expected->count; i++)
        largest = fmax(largest, fabs((double)expected->values[i]));
    for (size_t i = 0; i < expected->count; i++)
        check(t, expected->name, i, (double)ours[i], (double)expected->values[i],
              reference_tolerance * largest);
    free(ours);
}

#endif
