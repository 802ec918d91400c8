// scaling_here.c: see scaling_here.h.
#include "scaling_here.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/base/statistics.h"
#include "common/program/say.h"
#include "common/program/table.h"
#include "common/tensor/autograd.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "across_ranks.h"
#include "rank_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7, STEPS = 8 }; // the times are compared round by round

typedef struct Contest {
    const Dataset *data;
    int rows, k; // of each of k devices
    uint64_t seed;
    Tensor *X, *y; // on the host: k times so many rows
} Contest;

// The first k times `rows` images.
static void open_images(Contest *c) {
    DataIter *iter = data_iter_new(c->data, c->k * c->rows, false, 0);
    Tensor *X, *y;
    data_iter_first(iter, &X, &y);
    c->X = tensor_to(X, host());
    c->y = tensor_to(y, host());
    data_iter_free(iter);
}

// Device g's rows of them, on that device.
static void take_shard(const Contest *c, int g, Device *device, Tensor **X, Tensor **y) {
    Range rows = {.first = g * c->rows, .count = c->rows};
    begin_step(device);
    *X = rows_on(c->X, rows, device);
    *y = rows_on(c->y, rows, device);
}

static const float LR = 0.05f;

// ## As ranks

typedef struct Runner {
    Module *net;
    Ddp *ddp;      // of one process,
    RankNet *rank; // or of this rank
    Device *devices[MAX_LOCAL_DEVICES];
} Runner;

static void step_as_rank(const Contest *c, Runner *r) {
    Tensor *X, *y, *loss;
    take_shard(c, dist_get_rank(), dist_device(0), &X, &y);
    rank_net_step(r->rank, &X, &y, LR, c->k * c->rows, &loss);
}

// ## As devices of this process

static void step_in_one_process(const Contest *c, Runner *r) {
    Tensor *X[MAX_LOCAL_DEVICES], *y[MAX_LOCAL_DEVICES], *losses[MAX_LOCAL_DEVICES];
    for (int g = 0; g < c->k; g++) take_shard(c, g, r->devices[g], &X[g], &y[g]);
    sum_in_this_process(dist_chosen_all_reduce());
    ddp_step(r->ddp, X, y, LR, c->k * c->rows, losses);
}

static double seconds_of(const Contest *c, Runner *r, void (*step)(const Contest *, Runner *)) {
    double start = seconds_now();
    for (int s = 0; s < STEPS; s++) {
        step(c, r);
        synchronize_all();
    }
    return (seconds_now() - start) / STEPS;
}

// ## Side by side
//
// Ranks that do not train wait for the others (in the barrier, asleep), so that both have the cores
// for themselves.

static void open_ranks(const Contest *c, Runner *r, ProcessGroup *group) {
    r->net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(r->net, c->seed);
    if (dist_get_rank() < c->k)
        r->rank =
            rank_net_new(r->net, (RankNetOptions){.exchange = EXCHANGE_BUCKETS, .group = group});
}

static void open_process(const Contest *c, Runner *r) {
    if (dist_get_rank() > 0) return;
    r->net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(r->net, c->seed);
    for (int g = 0; g < c->k; g++) r->devices[g] = try_gpu(g);
    r->ddp = ddp_new(r->net, r->devices, c->k, (DdpOptions){0});
    for (int g = 0; g < c->k; g++) device_set_threads(r->devices[g], 1);
}

static void close_runner(Runner *r) {
    if (r->rank) rank_net_free(r->rank);
    if (r->ddp) ddp_free(r->ddp);
    if (r->net) module_free(r->net);
}

static void check_same_bits(const Runner *ranks, const Runner *process) {
    size_t n, m;
    Tensor *of_ranks = flat_parameters(ranks->net, dist_device(0)).data;
    Tensor *of_process = flat_parameters(process->net, process->devices[0]).data;
    float *a = values_of_all(&of_ranks, 1, &n), *b = values_of_all(&of_process, 1, &m);
    for (size_t i = 0; i < n; i++)
        CHECK(n == m && a[i] == b[i], "k ranks have the bits of k devices in one process");
    free(a);
    free(b);
}

// Returns how many times as long the ranks took, on rank 0.
static Quartiles contest(Contest *c, Table *t) {
    Runner ranks = {0}, process = {0};
    double alone[ROUNDS], together[ROUNDS], ratio[ROUNDS];
    ProcessGroup *group = dist_new_group(dist_get_rank() >= c->k);
    open_images(c);
    open_ranks(c, &ranks, group);
    open_process(c, &process);
    for (int round = -1; round < ROUNDS; round++) { // the first is not counted
        int at = round < 0 ? 0 : round;
        dist_barrier(NULL);
        if (dist_get_rank() == 0) alone[at] = seconds_of(c, &process, step_in_one_process);
        dist_barrier(NULL);
        if (dist_get_rank() < c->k) together[at] = seconds_of(c, &ranks, step_as_rank);
        if (dist_get_rank() == 0) ratio[at] = together[at] / alone[at];
    }
    dist_barrier(NULL);
    Quartiles times = {NAN, NAN, NAN};
    if (dist_get_rank() == 0) {
        times = quartiles(ratio, ROUNDS);
        check_same_bits(&ranks, &process);
        table_numbers(t, c->k, median(alone, ROUNDS), median(together, ROUNDS), times.median,
                      times.low, times.high);
        if (c->k > num_cores()) say("  (more ranks than cores)");
    }
    close_runner(&ranks);
    close_runner(&process);
    dist_free_group(group);
    tensor_free(c->X);
    tensor_free(c->y);
    return times;
}

static void say_result(Quartiles worst, int most) {
    bool noisy = worst.high - worst.low > fabs(worst.median - 1);
    char *times = noisy ? xstrdup("too noisy to compare")
                        : xprintf("at most %.2f times as long as in one process", worst.median);
    say("  The parameters of both are equal to the bit. Where ranks fit the cores (up to %d here): "
        "%s.",
        most, times);
    free(times);
}

// (With sums in a fixed order, whatever was chosen: others have no bits to compare.)
void compare_with_one_process(const Dataset *data, int rows, uint64_t seed) {
    const char *before = dist_chosen_all_reduce();
    Quartiles worst = {0};
    int most = 1;
    if (!dist_order_is_fixed()) dist_choose_all_reduce("sharded");
    say("\nk devices in one process, and k ranks: how many times as long, the middle and quartiles "
        "of "
        "%d rounds",
        ROUNDS);
    Table t = TABLE(NULL, WHOLE("k"), FIXED("one process", 2, .unit = "ms"),
                    FIXED("ranks", 2, .unit = "ms"), FIXED("times", 2), FIXED("low", 2),
                    FIXED("high", 2));
    device_set_threads(dist_device(0), 1);
    for (int k = 1; k <= dist_get_world_size() && k <= MAX_LOCAL_DEVICES; k *= 2) {
        Contest c = {.data = data, .rows = rows, .k = k, .seed = seed};
        dist_note("the comparison with one process, k = %d", k);
        Quartiles times = contest(&c, &t);
        if (k > num_cores()) continue;
        if (times.median > worst.median) worst = times;
        most = k;
    }
    if (dist_get_rank() == 0) say_result(worst, most);
    dist_choose_all_reduce(before);
    share_cores(dist_devices(), dist_local_devices());
}
