// pair.c: see pair.h.
#include "pair.h"
#include "common/base/platform.h"
#include "common/model/modelled_clock.h"

#include <math.h>

Pair pair_of(Module *net, Device *first, Device *second, const Tensor *X, const Tensor *y) {
    Device *devices[K] = {first, second};
    return (Pair){.first = data_parallel(net, devices, 1, BN_AVERAGED),
                  .both = data_parallel(net, devices, K, BN_AVERAGED),
                  .X = *X,
                  .y = *y,
                  .modelled = first == model_device(0)};
}

static double now(const Pair *p) { return p->modelled ? modelled_seconds() : seconds_now(); }

// Once both devices are idle.
static double seconds_since(const Pair *p, double start) {
    synchronize_all();
    return now(p) - start;
}

static double time_step(DataParallel *dp, const Pair *p, const Range shards[]) {
    Range rows = {0, shards[dp->k - 1].first + shards[dp->k - 1].count};
    Tensor X = rows_of(&p->X, rows), y = rows_of(&p->y, rows), *losses[MAX_DEVICES];
    double start = seconds_since(p, 0);
    train_step_as(dp, shards, &X, &y, 0, losses);
    return seconds_since(p, start);
}

// Enqueues forward and backward of the whole minibatch on a device.
static void compute_on(const Pair *p, Device *device) {
    Range all = {0, p->X.shape[0]};
    Tensor *X, *y;
    begin_step(device);
    split_batch_as(&all, &p->X, &p->y, &device, 1, &X, &y);
    backward(sum(cross_entropy(forward(p->both.net, X), y)));
}

// Forward and backward, while the other device is at work too: the two may be in each other's way,
// as they will be in training. In each round the clock is another device's, which gets its work
// first.
static void measure_speeds(const Pair *p, double speed[K]) {
    int n = p->X.shape[0];
    for (int round = 0; round < K * rounds; round++) {
        int i = round % K;
        double start = seconds_since(p, 0);
        for (int j = 0; j < K; j++) compute_on(p, p->both.devices[(i + j) % K]);
        synchronize(p->both.devices[i]);
        speed[i] = fmax(speed[i], n / (now(p) - start));
        for (int j = 0; j < K; j++)
            sgd_step(p->both.net, p->both.devices[j], 0, n); // no gradients left
    }
}

static double measure_exchange(Pair *p) {
    double fastest = INFINITY;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < K; i++) begin_step(p->both.devices[i]);
        double start = seconds_since(p, 0);
        trainer_step(&p->both, 0, 1);
        fastest = fmin(fastest, seconds_since(p, start));
    }
    return fastest;
}

static double predict_step(const Range shards[K], const Result *r) {
    return fmax(shards[0].count / r->speed[0], shards[1].count / r->speed[1]) + r->exchange;
}

Result measure(Pair *p, int n, Result r) {
    long rows = lround(n * r.speed[0] / (r.speed[0] + r.speed[1]));
    Range equal[K] = {equal_range(n, K, 0), equal_range(n, K, 1)}, all = {0, n};
    Range proportional[K] = {{0, rows}, {rows, n - rows}};
    r.n = n, r.rows[0] = (int)rows, r.rows[1] = n - (int)rows;
    r.said_equal = predict_step(equal, &r);
    r.said_proportional = predict_step(proportional, &r);
    r.equal = r.proportional = r.alone = INFINITY;
    for (int round = 0; round < rounds; round++) { // in turn: noise meets all alike
        r.equal = fmin(r.equal, time_step(&p->both, p, equal));
        r.proportional = fmin(r.proportional, time_step(&p->both, p, proportional));
        r.alone = fmin(r.alone, time_step(&p->first, p, &all));
    }
    return r;
}

Result measure_all(Pair *p) {
    Result r = {0};
    measure_speeds(p, r.speed);
    r.exchange = measure_exchange(p);
    return measure(p, p->X.shape[0], r);
}
