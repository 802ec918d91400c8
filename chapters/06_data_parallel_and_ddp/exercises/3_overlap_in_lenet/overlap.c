// overlap.c: see overlap.h.
#include "overlap.h"

#include "common/base/error.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"
#include "your_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Overlap *overlap_open(Device *const devices[], int k, uint64_t seed) {
    Overlap *o = xcalloc(1, sizeof *o);
    Tensor *params[LENET_PARAMS];
    CHECK(k <= MAX_COMPUTING, "not more devices than there is room for");
    o->k = k;
    memcpy(o->devices, devices, sizeof *devices * (size_t)k);
    lenet_init(params, seed);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], o->params[i]);
    synchronize_all();
    free_params(params, LENET_PARAMS);
    return o;
}

void overlap_close(Overlap *o) {
    synchronize_all();
    for (int i = 0; i < o->k; i++) free_params(o->params[i], LENET_PARAMS);
    free(o);
}

// ## Hooks: autograd says when a gradient is final

typedef struct Hooked {
    Overlap *o;
    int i, p;
} Hooked;

static void label(const char *what, int number) {
    char text[32];
    snprintf(text, sizeof text, "%s %d", what, number);
    trace_label(text);
}

static void grad_final(Tensor *t, void *context) {
    const Hooked *h = context;
    Overlap *o = h->o;
    (void)t;
    o->call[h->i][h->p] = ++o->calls;
    label("exchange", h->p);
    gradient_is_final(o, h->i, h->p);
    label("backward", o->calls);
}

static void hook_all(Overlap *o, Hooked *hooks) {
    for (int i = 0; i < o->k; i++)
        for (int p = 0; p < LENET_PARAMS; p++) {
            Hooked *h = hooks ? &hooks[i * LENET_PARAMS + p] : NULL;
            if (h) *h = (Hooked){o, i, p};
            when_grad_is_final(o->params[i][p], h ? grad_final : NULL, h);
        }
}

// ## The step

void overlap_step(Overlap *o, const Tensor *X, const Tensor *y, float lr, Tensor *losses[]) {
    Tensor *X_shards[MAX_COMPUTING], *y_shards[MAX_COMPUTING];
    Hooked hooks[MAX_COMPUTING * LENET_PARAMS];
    for (int i = 0; i < o->k; i++) begin_step(o->devices[i]);
    memset(o->num_final, 0, sizeof o->num_final);
    memset(o->final, 0, sizeof o->final);
    memset(o->exchanged, 0, sizeof o->exchanged);
    o->calls = 0;
    trace_label("load");
    split_batch(X, y, o->devices, o->k, X_shards, y_shards);
    trace_label("forward");
    for (int i = 0; i < o->k; i++)
        losses[i] = sum(cross_entropy(lenet(X_shards[i], o->params[i]), y_shards[i]));
    hook_all(o, hooks);
    label("backward", 0);
    backward_all(losses, o->k); // an operation at a time on all devices
    hook_all(o, NULL);
    trace_label("update");
    update_all(o, lr, X->shape[0]);
}
