// ways.c: see ways.h.
#include "ways.h"

#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "common/device/trace.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>

const char *way_name(WayKind kind) {
    static const char *const names[NUM_WAYS_TO_TRAIN] = {"chapter 4", "chapter 5", "DP", "DDP"};
    return names[kind];
}

// ---- where it begins ---------------------------------------------------------------------------

static void copy_lenet(Trained *t, uint64_t seed) {
    Tensor *params[LENET_PARAMS];
    lenet_init(params, seed);
    t->params = xmalloc(sizeof *t->params * (size_t)t->way.k);
    for (int i = 0; i < t->way.k; i++)
        get_params(params, LENET_PARAMS, t->devices[i], t->params[i]);
    free_params(params, LENET_PARAMS);
}

Trained *trained_new(const Way *way, Device *const devices[], uint64_t seed) {
    Trained *t = xcalloc(1, sizeof *t);
    t->way = *way;
    memcpy(t->devices, devices, sizeof *devices * (size_t)way->k);
    share_cores(devices, way->k);
    if (way->kind == WAY_CHAPTER_4) {
        copy_lenet(t, seed);
        return t;
    }
    t->net = way->net ? way->net : way->network->make(way->classes);
    if (way->net)
        restart(t->net);
    else
        initialize(t->net, seed);
    if (way->kind == WAY_DP) t->dp = dp_new(t->net, devices, way->k, way->gathers);
    if (way->kind == WAY_DDP) t->ddp = ddp_new(t->net, devices, way->k, way->ddp);
    if (way->kind == WAY_CHAPTER_5) {
        t->wrapper = xmalloc(sizeof *t->wrapper);
        *t->wrapper = data_parallel(t->net, devices, way->k, BN_LOCAL);
    }
    return t;
}

void trained_free(Trained *t) {
    synchronize_all();
    for (int i = 0; t->params && i < t->way.k; i++) free_params(t->params[i], LENET_PARAMS);
    if (t->dp) dp_free(t->dp);
    if (t->ddp) ddp_free(t->ddp);
    if (t->way.net)
        restart(t->net);
    else
        module_free(t->net);
    free(t->params);
    free(t->wrapper);
    free(t);
}

// ---- steps -------------------------------------------------------------------------------------

static void phase_ends(Trained *t, int phase) {
    if (t->phase_ends) t->phase_ends(phase, t->context);
}

static void dp_phase_ends(Dp *dp, DpPhase phase, void *context) {
    (void)dp;
    phase_ends(context, (int)phase);
}

static void step_by_dp(Trained *t, const Tensor *X, const Tensor *y, float lr) {
    t->dp->phase_ends = dp_phase_ends;
    t->dp->context = t;
    t->losses[0] = dp_step(t->dp, X, y, NULL, lr);
    t->num_losses = 1;
}

// Each rank loads its own rows from the host, and nobody waits for another rank before backward.
static void part_by_ddp(Trained *t, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES], *y_hat[MAX_DEVICES];
    int k = t->way.k;
    for (int i = 0; i < k; i++) begin_step(t->devices[i]);
    trace_label("load");
    split_batch(X, y, t->devices, k, X_shards, y_shards);
    ddp_forward(t->ddp, X_shards, y_hat);
    phase_ends(t, 0);
    for (int i = 0; i < k; i++) t->losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
    ddp_backward(t->ddp, t->losses);
    t->num_losses = k;
}

static void step_by_ddp(Trained *t, const Tensor *X, const Tensor *y, float lr) {
    int parts = t->way.micro_steps ? t->way.micro_steps : 1;
    modelled_clock_use_ranks(true); // each rank has a host thread of its own
    for (int m = 0; m < parts; m++) {
        Range rows = equal_range(X->shape[0], parts, m);
        Tensor X_part = rows_of(X, rows), y_part = rows_of(y, rows);
        ddp_no_sync(t->ddp, m < parts - 1);
        part_by_ddp(t, &X_part, &y_part);
    }
    ddp_update(t->ddp, lr, X->shape[0]);
    modelled_clock_use_ranks(false);
    phase_ends(t, 1);
}

void trained_step(Trained *t, const Tensor *X, const Tensor *y, float lr) {
    switch (t->way.kind) {
    case WAY_DP:
        step_by_dp(t, X, y, lr);
        return;
    case WAY_DDP:
        step_by_ddp(t, X, y, lr);
        return;
    case WAY_CHAPTER_4:
        train_batch(X, y, t->params, t->devices, t->way.k, lr, t->losses);
        break;
    case WAY_CHAPTER_5:
        train_step(t->wrapper, X, y, lr, t->losses);
        break;
    case NUM_WAYS_TO_TRAIN:
        break;
    }
    t->num_losses = t->way.k;
    phase_ends(t, 0);
}

double trained_loss(const Trained *t) {
    float values[MAX_DEVICES];
    double loss = 0;
    items(t->losses, t->num_losses, values);
    for (int i = 0; i < t->num_losses; i++) loss += (double)values[i];
    return loss;
}

float *trained_params(const Trained *t, int i, size_t *n) {
    if (t->params) return values_of_all(t->params[i], LENET_PARAMS, n);
    Tensor *all = flat_parameters(t->net, t->devices[i]).data;
    *n = numel(all);
    return tensor_values(all);
}
