// pair.c: see pair.h.
#include "pair.h"
#include "common/base/platform.h"
#include "common/model/modelled_clock.h"
#include "common/device/timer.h"
#include "your_part.h"

#include <math.h>

static Pair pair_on(const Flags *flags, Module *net, Device *const devices[K]) {
    Pair p = {.net = net, .lr = flags->lr, .rounds = rounds};
    initialize(net, flags->seed);
    p.first = data_parallel(net, devices, 1, BN_AVERAGED);
    p.both = data_parallel(net, devices, K, BN_AVERAGED);
    return p;
}

Pair pair_of(const Flags *flags, Module *net, Device *const devices[K], const int threads[K],
             DataIter *iter) {
    Pair p = pair_on(flags, net, devices);
    Tensor *X, *y;
    for (int i = 0; i < K; i++) device_set_threads(devices[i], threads[i]);
    data_iter_first(iter, &X, &y);
    p.X = *X;
    p.y = *y;
    return p;
}

Pair modelled_pair(const Flags *flags, Module *net, int batch_size) {
    enum { PIXELS = 28 };
    Pair p = pair_on(flags, net, (Device *const[K]){model_device(0), model_device(1)});
    p.X = (Tensor){.ndim = 4, .shape = {batch_size, 1, PIXELS, PIXELS}, .device = host()};
    p.y = (Tensor){.ndim = 1, .shape = {batch_size}, .device = host()};
    p.modelled = true;
    return p;
}

// What the clock of the pair says, and how long a timer ran that has been started and stopped once.
static double now(const Pair *p) { return p->modelled ? modelled_seconds() : seconds_now(); }
static double time_of(const Pair *p, const Timer *timer) {
    return p->modelled ? timer->modelled_sum : timer->sum;
}

static double time_step(DataParallel *dp, const Pair *p, const Range shards[]) {
    Range rows = {0, shards[dp->k - 1].first + shards[dp->k - 1].count};
    Tensor X = rows_of(&p->X, rows), y = rows_of(&p->y, rows), *losses[MAX_DEVICES];
    Timer timer = {0};
    timer_start(&timer);
    train_step_as(dp, shards, &X, &y, p->lr, losses);
    timer_stop(&timer);
    return time_of(p, &timer);
}

// Enqueues forward and backward of the whole minibatch on a device.
static void compute_on(const Pair *p, Device *device) {
    Range all = {0, p->X.shape[0]};
    Tensor *X, *y;
    begin_step(device);
    split_batch_as(&all, &p->X, &p->y, &device, 1, &X, &y);
    backward(sum(cross_entropy(forward(p->net, X), y)));
}

// Rows per second of each device, forward and backward, while the other is at work too: the two may
// be in each other's way, as they will be in training. In each round the clock is another device's,
// which gets its work first.
static void measure_speeds(const Pair *p, double speed[K]) {
    int n = p->X.shape[0];
    for (int i = 0; i < K; i++) speed[i] = 0;
    for (int round = 0; round < K * p->rounds; round++) {
        int i = round % K;
        synchronize_all();
        double start = now(p);
        for (int j = 0; j < K; j++) compute_on(p, p->both.devices[(i + j) % K]);
        synchronize(p->both.devices[i]);
        speed[i] = fmax(speed[i], n / (now(p) - start));
        for (int j = 0; j < K; j++) sgd_step(p->net, p->both.devices[j], 0, n); // no gradients left
    }
}

// Seconds of the exchange and the update.
static double measure_exchange(Pair *p) {
    DataParallel *dp = &p->both;
    double fastest = INFINITY;
    for (int round = 0; round < p->rounds; round++) {
        Timer timer = {0};
        for (int i = 0; i < dp->k; i++) begin_step(dp->devices[i]);
        timer_start(&timer);
        trainer_step(dp, 0, 1);
        timer_stop(&timer);
        fastest = fmin(fastest, time_of(p, &timer));
    }
    return fastest;
}

Result measure(Pair *p, int n, double slowdown, const double speed[K], double exchange) {
    Result r = {.slowdown = slowdown, .n = n, .speed = {speed[0], speed[1]}, .exchange = exchange};
    Range equal[K], proportional[K], all = {0, n};
    for (int i = 0; i < K; i++) equal[i] = equal_range(n, K, i);
    shards_for(n, speed, K, proportional);
    for (int i = 0; i < K; i++) r.rows[i] = (int)proportional[i].count;
    r.said_equal = predict_step(equal, speed, K, exchange);
    r.said_proportional = predict_step(proportional, speed, K, exchange);
    r.equal = r.proportional = r.alone = INFINITY;
    for (int round = 0; round < p->rounds; round++) { // in turn: noise meets all alike
        r.equal = fmin(r.equal, time_step(&p->both, p, equal));
        r.proportional = fmin(r.proportional, time_step(&p->both, p, proportional));
        r.alone = fmin(r.alone, time_step(&p->first, p, &all));
    }
    return r;
}

Result measure_all(Pair *p, int n, double slowdown) {
    double speed[K];
    measure_speeds(p, speed);
    return measure(p, n, slowdown, speed, measure_exchange(p));
}
