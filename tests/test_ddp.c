// test_ddp.c: chapter 6: buckets, DistributedDataParallel and DataParallel on k devices against one
// device, on the book's images and from the book's start.
#include "common/base/error.h"
#include "common/data/fashion_mnist.h"
#include "common/model/modelled_clock.h"
#include "common/program/exercise.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/dp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"
#include "dies.h"

// ---- a training, in several ways ---------------------------------------------------------------

enum {
    BATCH = SANITIZED ? 16 : 48,
    IMAGES = 4 * BATCH + 13
}; // each fifth minibatch is a short one

static Dataset *images;

// LeNet has thousands of ReLUs, and sooner or later a last digit decides on which side of zero one
// of them is: from then on two trainings differ by more than rounding, on one device as on many.
// From the book's start with its zero biases that takes some ten steps. So trainings are compared
// as a whole for 8 steps; and for 20, from a larger start, each step is compared with what one
// device makes of the same parameters.
enum { WHOLE_STEPS = SANITIZED ? 3 : 8, STEPS = SANITIZED ? 5 : 20 };
static const double whole_tolerance = 1e-5, step_tolerance = 1e-5; // of the largest change

typedef struct Result {
    float *params;
    size_t n;
    double loss; // of the last step, summed over its rows
} Result;

// All values of the trained parameters on a device, in the order of state_dict.
static float *params_on(const Module *net, const Device *device, size_t *n) {
    Tensor *all = flat_parameters(net, device).data;
    *n = numel(all);
    return tensor_values(all);
}

static void open_k(void **state, int k, Device *devices[]) {
    bool gpu = strcmp(*state, "cuda") == 0;
    if (gpu && num_gpus() == 0) skip("no GPU");
    for (int i = 0; i < k; i++) devices[i] = gpu ? try_gpu(i) : cpu_device(i);
}

// Takes the next minibatch, in another order of the epochs: the short one comes early.
static const Tensor *next(DataIter *iter, Tensor **y, int *epoch) {
    Tensor *X;
    if (!data_iter_next(iter, &X, y)) {
        data_iter_start(iter, ++*epoch);
        assert_true(data_iter_next(iter, &X, y));
    }
    return X;
}

typedef struct Way {
    const char *name;
    DdpOptions ddp;
    int micro_steps; // 0: DataParallel, of this kind:
    DpGathers gathers;
    bool each_step; // compare that, too
} Way;

// `micro` parts of a minibatch, only the last of which is exchanged.
static double ddp_train_on(Ddp *ddp, const Tensor *X, const Tensor *y, int micro, float lr) {
    double loss = 0;
    for (int m = 0; m < micro; m++) {
        Range rows = equal_range(X->shape[0], micro, m);
        const Tensor part = rows_of(X, rows), labels = rows_of(y, rows);
        Tensor *X_shards[MAX_DEVICES], *y_shards[MAX_DEVICES];
        Tensor *y_hat[MAX_DEVICES], *losses[MAX_DEVICES];
        float values[MAX_DEVICES];
        for (int i = 0; i < ddp->k; i++) begin_step(ddp->devices[i]);
        split_batch(&part, &labels, ddp->devices, ddp->k, X_shards, y_shards);
        ddp_no_sync(ddp, m < micro - 1);
        ddp_forward(ddp, X_shards, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
        ddp_backward(ddp, losses);
        items(losses, ddp->k, values);
        for (int i = 0; i < ddp->k; i++) loss += (double)values[i];
    }
    ddp_update(ddp, lr, X->shape[0]);
    return loss;
}

static void check_replicas_equal(const Module *net, Device *const devices[], int k) {
    size_t n;
    float *first = params_on(net, devices[0], &n);
    for (int i = 1; i < k; i++) {
        float *other = params_on(net, devices[i], &n);
        assert_memory_equal(first, other, n * sizeof(float));
        free(other);
    }
    free(first);
}

// A network that is trained in one of the ways.
typedef struct Trainer {
    Module *net;
    const Way *way;
    Ddp *ddp;
    Dp *dp;
} Trainer;

static const Way alone = {.name = "one device", .micro_steps = 1};

// With weights so many times the book's; if more than once, with biases that are not zero, too.
static Trainer trainer_new(Device *const devices[], int k, const Way *way, float scale) {
    Trainer t = {.net = lenet_modules(10), .way = way};
    initialize(t.net, 1);
    Parameters all = parameters_of(t.net);
    for (int p = 0; p < all.n; p++) {
        Tensor *start = all.list[p]->start;
        for (size_t i = 0; i < numel(start); i++)
            if (scale > 1 && start->ndim == 1)
                start->data[i] = i % 2 ? 0.1f : -0.1f;
            else
                start->data[i] *= scale;
    }
    if (way->micro_steps)
        t.ddp = ddp_new(t.net, devices, k, way->ddp);
    else
        t.dp = dp_new(t.net, devices, k, way->gathers);
    return t;
}

static void trainer_free(Trainer *t) {
    if (t->ddp) ddp_free(t->ddp);
    if (t->dp) dp_free(t->dp);
    module_free(t->net);
}

static double trainer_step(Trainer *t, const Tensor *X, const Tensor *y) {
    const float lr = 0.1f;
    if (t->dp) return (double)item(dp_step(t->dp, X, y, NULL, lr));
    double loss = ddp_train_on(t->ddp, X, y, t->way->micro_steps, lr);
    check_replicas_equal(t->net, t->ddp->devices, t->ddp->k);
    return loss;
}

static float *trained(const Trainer *t, Device *const devices[], size_t *n) {
    return params_on(t->net, devices[0], n);
}

// Some steps from the book's start.
static Result train(Device *const devices[], int k, const Way *way) {
    Result r = {0};
    int epoch = 0;
    Tensor *y;
    Trainer t = trainer_new(devices, k, way, 1);
    DataIter *iter = data_iter_new(images, BATCH, true, 3);
    data_iter_start(iter, 0);
    for (int step = 0; step < WHOLE_STEPS; step++) {
        const Tensor *X = next(iter, &y, &epoch);
        r.loss = trainer_step(&t, X, y);
    }
    r.params = trained(&t, devices, &r.n);
    trainer_free(&t);
    data_iter_free(iter);
    return r;
}

static void check_close(const Way *way, int k, const char *what, double apart, double tolerance,
                        double loss, double expected) {
    if (!(apart <= tolerance) || !(fabs(loss - expected) <= 1e-5 * expected))
        fail_msg("%s on %d devices, %s: parameters differ by %g of what they learned, the loss is "
                 "%.9g, expected %.9g",
                 way->name, k, what, apart, loss, expected);
}

// A whole training, compared with one device's.
static void compare_wholes(Device *const devices[], int k, const Way *way, const Result *one) {
    size_t n;
    Trainer untrained = trainer_new(devices, 1, &alone, 1);
    float *before = trained(&untrained, devices, &n);
    Result r = train(devices, k, way);
    double apart = relative_difference(r.params, one->params, before, n);
    check_close(way, k, "a training", apart, whole_tolerance, r.loss, one->loss);
    trainer_free(&untrained);
    free(before);
    free(r.params);
}

// Each step of a training, compared with that of one device from the same parameters.
static void compare_steps(Device *const devices[], int k, const Way *way) {
    Trainer one = trainer_new(devices, 1, &alone, 8), t = trainer_new(devices, k, way, 8);
    DataIter *iter = data_iter_new(images, BATCH, true, 3);
    int epoch = 0;
    size_t n;
    Tensor *y;
    data_iter_start(iter, 0);
    for (int step = 0; step < STEPS; step++) {
        const Tensor *X = next(iter, &y, &epoch);
        float *before = trained(&t, devices, &n);
        tensor_write(flat_parameters(one.net, devices[0]).data, before);
        double expected = trainer_step(&one, X, y), loss = trainer_step(&t, X, y);
        float *a = trained(&t, devices, &n), *b = trained(&one, devices, &n);
        double apart = relative_difference(a, b, before, n);
        check_close(way, k, "a step", apart, step_tolerance, loss, expected);
        free(before);
        free(a);
        free(b);
    }
    trainer_free(&one);
    trainer_free(&t);
    data_iter_free(iter);
}

static void compare(Device *const devices[], const Way ways[], int num_ways) {
    const int ks[] = {1, 2, 3, 4, 7}, first = device_gpu(devices[0]) >= 0 && SIMULATED ? 2 : 0;
    Result one = train(devices, 1, &alone);
    assert_true(isfinite(one.loss));
    for (int w = 0; w < num_ways; w++)
        for (int j = first; j < (SANITIZED ? 3 : 5); j++) {
            compare_wholes(devices, ks[j], &ways[w], &one);
            if (ways[w].each_step) compare_steps(devices, ks[j], &ways[w]);
        }
    free(one.params);
}

static void test_ddp(void **state) {
    Device *devices[7];
    const Way ways[] = {
        {"DDP", {0}, 1, 0, false},
        {"DDP, buckets of 4 KB", {.bucket_bytes = 4 << 10}, 1, 0, true},
        {"DDP, a bucket for each parameter", {.bucket_bytes = 1}, 1, 0, false},
        {"DDP, copies", {.bucket_bytes = 64 << 10, .copies = true}, 1, 0, false},
        {"DDP, rebuilt", {.bucket_bytes = 64 << 10, .copies = true, .rebuild = true}, 1, 0, false},
        {"DDP, searched", {.bucket_bytes = 64 << 10, .find_unused = true}, 1, 0, false},
        {"DDP in 2 parts", {.bucket_bytes = 64 << 10}, 2, 0, true},
        {"DDP in 4 parts, copies", {.bucket_bytes = 64 << 10, .copies = true}, 4, 0, false},
    };
    open_k(state, 7, devices);
    choose_allreduce("ring");
    compare(devices, ways, 8);
    choose_allreduce("star");
    compare(devices, ways, 2);
}

static void test_dp(void **state) {
    Device *devices[7];
    const Way ways[] = {{"DP", {0}, 0, DP_OUTPUTS, true},
                        {"DP, sums", {0}, 0, DP_SUMMED_LOSSES, false}};
    open_k(state, 7, devices);
    compare(devices, ways, 2);
}

// ---- equal to the bit --------------------------------------------------------------------------

// Whatever the buckets are, and wherever they lie: where the order of the ranks in a sum does not
// depend on a number's place in its bucket, the bits are the same. It does not in the star, where
// rank 0 adds one rank after the other; in the ring it does.
static void test_same_bits(void **state) {
    Device *devices[4];
    const Way ways[] = {
        {"one bucket", {.bucket_bytes = ONE_BUCKET}, 1, 0, false},
        {"small buckets", {.bucket_bytes = 4 << 10}, 1, 0, false},
        {"copies", {.bucket_bytes = 64 << 10, .copies = true}, 1, 0, false},
        {"rebuilt", {.bucket_bytes = 8 << 10, .copies = true, .rebuild = true}, 1, 0, false},
        // sums the same gradients in the same order
        {"DP, sums", {0}, 0, DP_SUMMED_LOSSES, false},
    };
    open_k(state, 4, devices);
    choose_allreduce("star");
    Result first = train(devices, 4, &ways[0]);
    for (int w = 1; w < 5; w++) {
        Result r = train(devices, 4, &ways[w]);
        assert_memory_equal(r.params, first.params, r.n * sizeof(float));
        free(r.params);
    }
    free(first.params);
}

// ---- losses inside forward, and unequal shards -------------------------------------------------

static float *gradients_of_dp(Module *net, Device *const devices[], DpGathers gathers,
                              const Range *shards, size_t *n) {
    Tensor *X, *y;
    DataIter *iter = data_iter_new(images, BATCH, true, 3);
    initialize(net, 1);
    Dp *dp = dp_new(net, devices, 2, gathers);
    data_iter_first(iter, &X, &y);
    float *before = params_on(net, devices[0], n);
    dp_step(dp, X, y, shards, 1);
    float *after = params_on(net, devices[0], n);
    for (size_t i = 0; i < *n; i++) after[i] -= before[i];
    dp_free(dp);
    data_iter_free(iter);
    free(before);
    return after;
}

static void test_mean_of_means(void **state) {
    Device *devices[2];
    size_t n;
    const Range equal[] = {{0, BATCH / 2}, {BATCH / 2, BATCH / 2}};
    const Range unequal[] = {{0, BATCH - 4}, {BATCH - 4, 4}};
    open_k(state, 2, devices);
    Module *net = lenet_modules(10);
    for (int u = 0; u < 2; u++) {
        const Range *shards = u ? unequal : equal;
        float *right = gradients_of_dp(net, devices, DP_OUTPUTS, shards, &n);
        float *sums = gradients_of_dp(net, devices, DP_SUMMED_LOSSES, shards, &n);
        float *means = gradients_of_dp(net, devices, DP_MEAN_LOSSES, shards, &n);
        assert_true(relative_difference(sums, right, NULL, n) < 1e-5);
        double wrong = relative_difference(means, right, NULL, n);
        assert_true(u ? wrong > 0.1 && isfinite(wrong) : wrong < 1e-5);
        free(right);
        free(sums);
        free(means);
    }
    module_free(net);
}

// ---- running statistics, and parameters that are not used ----------------------------------------

// What device 0 of DP has seen is kept, in the end and on all devices at the next step; the others'
// running statistics are lost. So they are those of one device that is given the first half only.
static void test_dp_keeps_buffers_of_the_first(void **state) {
    Device *devices[2];
    Tensor *X, *y;
    if (SANITIZED) skip("too long with sanitizers");
    open_k(state, 2, devices);
    DataIter *iter = data_iter_new(images, 8, false, 0);
    float *values[2];
    size_t n = 0;
    data_iter_first(iter, &X, &y);
    for (int k = 2; k >= 1; k--) {
        Module *net = networks[1].make(10);
        initialize(net, 1);
        Dp *dp = dp_new(net, devices, k, DP_SUMMED_LOSSES);
        if (k == 1) X->shape[0] = y->shape[0] = 4;
        dp_step(dp, X, y, NULL, 0);
        Tensor *buffers = flat_parameters(net, devices[0]).buffers;
        n = numel(buffers);
        values[k - 1] = tensor_values(buffers);
        dp_free(dp);
        module_free(net);
    }
    assert_true(n > 0);
    assert_memory_equal(values[0], values[1], n * sizeof(float));
    free(values[0]);
    free(values[1]);
    X->shape[0] = y->shape[0] = 8;
    data_iter_free(iter);
}

// Rank 0's buffers go to all if the forward before was synchronised (before the first one: yes).
static void test_ddp_broadcasts_buffers_by_the_forward_before(void **state) {
    const bool no_sync[] = {true, true, false, false}, crosses[] = {true, false, false, true};
    Device *devices[2];
    Tensor *X, *y, *X_shards[2], *y_shards[2], *y_hat[2];
    open_k(state, 2, devices);
    DataIter *iter = data_iter_new(images, 8, false, 0);
    data_iter_first(iter, &X, &y);
    Module *net = Sequential(BatchNorm2d(1), Flatten(), Linear(28 * 28, 10));
    initialize(net, 1);
    Ddp *ddp = ddp_new(net, devices, 2, (DdpOptions){0});
    for (int f = 0; f < 4; f++) {
        for (int i = 0; i < 2; i++) begin_step(devices[i]);
        split_batch(X, y, devices, 2, X_shards, y_shards);
        ddp_no_sync(ddp, no_sync[f]);
        synchronize_all();
        ledger_reset();
        ddp_forward(ddp, X_shards, y_hat);
        synchronize_all();
        assert_int_equal(ledger_bytes_between_devices(), crosses[f] ? buffer_bytes(net) : 0);
    }
    ddp_free(ddp);
    module_free(net);
    data_iter_free(iter);
}

// A loss of the first layer alone, on k ranks, with find_unused: its update is one device's, and
// the other parameters stay as they are, to the bit.
static float *learned_by_first_layer(Device *const devices[], int k, size_t *first, size_t *n) {
    Tensor *X, *y, *X_shards[2], *y_shards[2], *losses[2];
    DataIter *iter = data_iter_new(images, 8, false, 0);
    Module *net = lenet_modules(10);
    initialize(net, 1);
    Ddp *ddp = ddp_new(net, devices, k, (DdpOptions){.bucket_bytes = 4096, .find_unused = true});
    float *before = params_on(net, devices[0], n);
    data_iter_first(iter, &X, &y);
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(X, y, devices, k, X_shards, y_shards);
    for (int i = 0; i < k; i++)
        losses[i] =
            sum(conv2d(X_shards[i], parameter_data(find_parameter(net, "0.weight"), devices[i]),
                       parameter_data(find_parameter(net, "0.bias"), devices[i])));
    ddp_backward(ddp, losses);
    ddp_update(ddp, 0.1f, 8);
    check_replicas_equal(net, devices, k);
    float *after = params_on(net, devices[0], n);
    *first = 20 * 9 + 20; // weight and bias
    for (size_t i = 0; i < *n; i++) after[i] -= before[i];
    free(before);
    ddp_free(ddp);
    module_free(net);
    data_iter_free(iter);
    return after;
}

static void test_unused(void **state) {
    Device *devices[2];
    size_t first, n;
    open_k(state, 2, devices);
    float *one = learned_by_first_layer(devices, 1, &first, &n);
    float *two = learned_by_first_layer(devices, 2, &first, &n);
    assert_true(relative_difference(two, one, NULL, first) < 1e-5);
    for (size_t i = first; i < n; i++) assert_true(one[i] == 0 && two[i] == 0);
    free(one);
    free(two);
}

// ---- bytes -------------------------------------------------------------------------------------

typedef struct Counted {
    uint64_t sent[NUM_DP_PHASES][4], received[NUM_DP_PHASES][4];
    uint64_t sent_before[4], received_before[4];
} Counted;

static void count(Device *const devices[], int k, uint64_t sent[], uint64_t received[]) {
    for (int i = 0; i < k; i++) {
        sent[i] = received[i] = 0;
        for (int j = 0; j < k; j++) {
            if (i == j) continue;
            sent[i] += ledger_bytes(devices[i], devices[j]);
            received[i] += ledger_bytes(devices[j], devices[i]);
        }
    }
}

static void count_phase(Dp *dp, DpPhase phase, void *context) {
    Counted *c = context;
    uint64_t sent[4], received[4];
    count(dp->devices, dp->k, sent, received);
    for (int i = 0; i < dp->k; i++) {
        c->sent[phase][i] = sent[i] - c->sent_before[i];
        c->received[phase][i] = received[i] - c->received_before[i];
        c->sent_before[i] = sent[i];
        c->received_before[i] = received[i];
    }
}

static void test_dp_bytes(void **state) {
    Device *devices[4];
    Tensor *X, *y;
    open_k(state, 4, devices);
    for (int which = 0; which < (SANITIZED ? 1 : NUM_NETWORKS); which++)
        for (DpGathers gathers = DP_OUTPUTS; gathers <= DP_SUMMED_LOSSES; gathers++) {
            int rows = which == 0 ? 21 : 11, k = which == 0 ? 4 : 2;
            DataIter *iter = data_iter_new(images, rows, true, 3);
            Module *net = networks[which].make(10);
            Counted c = {0};
            initialize(net, 1);
            Dp *dp = dp_new(net, devices, k, gathers);
            dp->phase_ends = count_phase;
            dp->context = &c;
            data_iter_first(iter, &X, &y);
            ledger_reset();
            dp_step(dp, X, y, NULL, 0.1f);
            synchronize_all();
            for (DpPhase p = 0; p < NUM_DP_PHASES; p++)
                for (int i = 0; i < k; i++) {
                    Traffic formula = dp_phase_bytes(dp, p, i, rows, 28 * 28, 10);
                    assert_int_equal(c.sent[p][i], formula.sent);
                    assert_int_equal(c.received[p][i], formula.received);
                }
            dp_free(dp);
            module_free(net);
            data_iter_free(iter);
        }
}

static void test_ddp_bytes(void **state) {
    Device *devices[4];
    Tensor *X, *y, *X_shards[4], *y_shards[4], *losses[4];
    uint64_t sent[4], received[4];
    open_k(state, 4, devices);
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        DataIter *iter = data_iter_new(images, 8, true, 3);
        Module *net = networks[SANITIZED ? 0 : 1].make(10);
        choose_this_allreduce(&allreduces[a]);
        initialize(net, 1);
        ledger_reset();
        Ddp *ddp = ddp_new(net, devices, 4, (DdpOptions){.bucket_bytes = 3 << 20});
        assert_int_equal(ledger_bytes_between_devices(),
                         3 * (parameter_bytes(net) + buffer_bytes(net)));
        data_iter_first(iter, &X, &y);
        for (int i = 0; i < 4; i++) begin_step(devices[i]);
        split_batch(X, y, devices, 4, X_shards, y_shards);
        ledger_reset();
        ddp_step(ddp, X_shards, y_shards, 0.1f, 8, losses);
        synchronize_all();
        count(devices, 4, sent, received);
        for (int i = 0; i < 4; i++) {
            Traffic grads = ddp_gradient_bytes(ddp, i), buffers = ddp_buffer_bytes(ddp, i);
            assert_int_equal(sent[i], grads.sent + buffers.sent);
            assert_int_equal(received[i], grads.received + buffers.received);
        }
        ddp_free(ddp);
        module_free(net);
        data_iter_free(iter);
    }
    choose_allreduce("star");
}

// ---- buckets -----------------------------------------------------------------------------------

static void test_bucket_rule(void **state) {
    (void)state;
    // floats: a bucket of 100 bytes closes when it has 25 of them, the first when it has 10
    const size_t sizes[] = {7, 30, 5, 24, 1, 3, 8};
    const int order[] = {6, 5, 4, 3, 2, 1, 0};
    Buckets b = buckets_of(sizes, order, 7, 40, 100);
    const int first[] = {0, 2, 4, 6, 7};
    const size_t floats[] = {11, 25, 35, 7};
    assert_int_equal(b.n, 4);
    assert_memory_equal(b.first, first, sizeof first);
    assert_memory_equal(b.floats, floats, sizeof floats);
    assert_int_equal(bucket_with(&b, 6), 0);
    assert_int_equal(bucket_with(&b, 0), 3);
    buckets_free(&b);
    b = buckets_of(sizes, order, 7, ONE_BUCKET, ONE_BUCKET);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.floats[0], 78);
    buckets_free(&b);
    b = buckets_of(sizes, order, 7, 1, 1);
    assert_int_equal(b.n, 7);
    buckets_free(&b);
}

// ---- the sampler -------------------------------------------------------------------------------

static void test_sampler(void **state) {
    (void)state;
    const int counts[] = {1, 7, 12, 100, 101};
    for (int c = 0; c < 5; c++)
        for (int k = 1; k <= 7; k++)
            for (SamplerMode mode = SAMPLER_PAD; mode <= SAMPLER_EXACT; mode++) {
                int n = counts[c], seen[101] = {0}, all = 0, most = 0, least = 1 << 20;
                for (int rank = 0; rank < k; rank++) {
                    DistributedSampler s = {n, k, rank, mode, true, 5, 2};
                    int mine = sampler_count(&s), indices[101];
                    sampler_indices(&s, indices);
                    for (int i = 0; i < mine; i++) seen[indices[i]]++;
                    all += mine;
                    if (mine > most) most = mine;
                    if (mine < least) least = mine;
                    assert_true(mine <= sampler_most(&s));
                }
                int once = 0, twice = 0, never = 0;
                for (int i = 0; i < n; i++) {
                    once += seen[i] == 1;
                    twice += seen[i] > 1;
                    never += seen[i] == 0;
                }
                if (mode == SAMPLER_EXACT) assert_int_equal(once, n);
                if (mode != SAMPLER_EXACT) assert_int_equal(most, least);
                if (mode == SAMPLER_PAD) assert_int_equal(never, 0);
                if (mode == SAMPLER_PAD) assert_int_equal(all, (n + k - 1) / k * k);
                if (mode == SAMPLER_DROP) assert_int_equal(twice, 0);
                if (mode == SAMPLER_DROP) assert_int_equal(never, n % k);
            }
}

static void test_sampler_epochs(void **state) {
    (void)state;
    int first[50], second[50];
    DistributedSampler s = {100, 2, 1, SAMPLER_PAD, true, 5, 0};
    sampler_indices(&s, first);
    sampler_indices(&s, second); // forgotten: the same order once more
    assert_memory_equal(first, second, sizeof first);
    sampler_set_epoch(&s, 1);
    sampler_indices(&s, second);
    assert_memory_not_equal(first, second, sizeof first);
    s.shuffle = false;
    sampler_indices(&s, first);
    for (int i = 0; i < 50; i++) assert_int_equal(first[i], 1 + 2 * i);
}

// ---- mistakes: on devices without values, as a child process has no workers --------------------
// First of all, as long as there are none here: one that is just starting may hold a lock, which
// would be locked in the child for ever.

enum { EARLY, OTHER_ORDER, UNUSED };

static void make_mistake(void *which) {
    devices_after_fork();
    Device *devices[2] = {model_device(0), model_device(1)};
    const Tensor X = {.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()};
    const Tensor y = {.ndim = 1, .shape = {8}, .device = host()};
    Tensor *X_shards[2], *y_shards[2], *y_hat[2], *losses[2];
    Module *net = lenet_modules(10);
    initialize(net, 1);
    Ddp *ddp = ddp_new(net, devices, 2, (DdpOptions){.bucket_bytes = 8 << 10});
    if (*(int *)which == EARLY) ddp->ranks[1][1].missing = -1;
    if (*(int *)which == OTHER_ORDER) {
        ddp->turn[1][0] = 1;
        ddp->turn[1][1] = 0;
    }
    for (int i = 0; i < 2; i++) begin_step(devices[i]);
    split_batch(&X, &y, devices, 2, X_shards, y_shards);
    ddp_forward(ddp, X_shards, y_hat);
    for (int i = 0; i < 2; i++) {
        losses[i] = sum(cross_entropy(y_hat[i], y_shards[i]));
        // a loss of something else, in which the last layer's parameters have no part
        if (*(int *)which == UNUSED) {
            begin_step(devices[i]);
            Tensor *W = parameter_data(find_parameter(net, "0.weight"), devices[i]);
            losses[i] = sum(relu(reshape_to(W, 4, (const int[]){20, 1, 3, 3})));
        }
    }
    ddp_backward(ddp, losses);
}

static void test_mistakes(void **state) {
    (void)state;
    const char *const messages[] = {"bucket 1 of rank 1 is sent before the gradient of",
                                    "rank 0 is at bucket 0, rank 1 at bucket 1",
                                    "the parameter 0.bias got no gradient on rank 0"};
    for (int which = EARLY; which <= UNUSED; which++)
        expect_death(1, messages[which], make_mistake, &which);
}

// ---- main --------------------------------------------------------------------------------------

static int open_images(void **state) {
    (void)state;
    images = fashion_mnist_open(NULL, true, IMAGES);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    dataset_free(images);
    devices_close();
    return 0;
}

int main(void) {
    devices_init(BACKEND_AUTO, 0);
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(test_mistakes),
        UNLESS_SIMULATED(test_bucket_rule),
        UNLESS_SIMULATED(test_sampler),
        UNLESS_SIMULATED(test_sampler_epochs),
        ON_BOTH(test_ddp),
        ON_BOTH(test_dp),
        ON_BOTH(test_same_bits),
        ON_BOTH(test_mean_of_means),
        ON_BOTH_UNLESS_SIMULATED(test_dp_keeps_buffers_of_the_first),
        ON_BOTH(test_ddp_broadcasts_buffers_by_the_forward_before),
        ON_BOTH(test_unused),
        ON_BOTH(test_dp_bytes),
        ON_BOTH(test_ddp_bytes),
    };
    return cmocka_run_group_tests(tests, open_images, close_all);
}
