// test_ddp.c: chapter 6: buckets, DistributedDataParallel and DataParallel on k devices against one
// device, on the book's images.
#include "common/data/fashion_mnist.h"
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/dp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"
#include "cases.h"

enum {
    MOST = 7, // devices
    BATCH = SANITIZED ? 16 : 48,
    STEPS = SANITIZED ? 5 : 6,
};

// ---- a minibatch, and a step on it -------------------------------------------------------------

static Dataset *dataset; // the first rows of the training set,
static DataIter *iter;   // which are one minibatch:
static Tensor *images, *labels;

typedef struct Rows {
    Tensor X, y;
} Rows;

typedef struct Shards {
    Tensor *X[MOST], *y[MOST];
} Shards;

static Rows rows_from(int first, int n) {
    if (!dataset) { // not before the first fork: a GPU's host memory is not for a child
        dataset = fashion_mnist_open(NULL, true, 4 * BATCH + 13);
        iter = data_iter_new(dataset, 4 * BATCH + 13, false, 0);
        data_iter_first(iter, &images, &labels);
    }
    return (Rows){rows_of(images, (Range){first, n}), rows_of(labels, (Range){first, n})};
}

// Begins a step of each device.
static Shards shards_of(Rows rows, Device *const devices[], int k) {
    Shards s;
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(&rows.X, &rows.y, devices, k, s.X, s.y);
    return s;
}

enum { PARAMS = 129068, FLOATS = PARAMS * sizeof(float) }; // of LeNet

// All values of LeNet's parameters on a device, in the order of state_dict.
static float *params_on(const Module *net, const Device *device) {
    const Tensor *all = flat_parameters(net, device).data;
    assert_int_equal(numel(all), PARAMS);
    return values_of(all);
}

static void check_replicas_equal(const Module *net, Device *const devices[], int k) {
    const float *first = params_on(net, devices[0]);
    for (int i = 1; i < k; i++) assert_memory_equal(first, params_on(net, devices[i]), FLOATS);
}

// ---- LeNet, in one of several ways -------------------------------------------------------------

typedef struct Way {
    const char *name;
    int micro_steps; // 0: DataParallel, of this kind:
    DpGathers gathers;
    DdpOptions ddp;
    int buckets;     // that there must be; 0: any number
    bool other_bits; // sums the same numbers in another order than the first way
} Way;

static const Way alone = {.name = "one device", .micro_steps = 1};

typedef struct Trainer {
    Module *net;
    const Way *way;
    Ddp *ddp;
    Dp *dp;
} Trainer;

static Trainer trainer_new(Device *const devices[], int k, const Way *way) {
    Trainer t = {.net = lenet_modules(10), .way = way};
    initialize(t.net, 1);
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

// In some parts of the minibatch, only the last of which is exchanged. Returns the loss.
static double ddp_train_on(Ddp *ddp, int first, int n, int micro, float lr) {
    double loss = 0;
    for (int m = 0; m < micro; m++) {
        Range part = equal_range(n, micro, m);
        Tensor *y_hat[MOST], *losses[MOST];
        Shards s = shards_of(rows_from(first + part.first, part.count), ddp->devices, ddp->k);
        ddp_no_sync(ddp, m < micro - 1);
        ddp_forward(ddp, s.X, y_hat);
        for (int i = 0; i < ddp->k; i++) losses[i] = sum(cross_entropy(y_hat[i], s.y[i]));
        ddp_backward(ddp, losses);
        for (int i = 0; i < ddp->k; i++) loss += (double)item(losses[i]);
    }
    ddp_update(ddp, lr, n);
    check_replicas_equal(ddp->net, ddp->devices, ddp->k);
    return loss;
}

// One step from these parameters. Returns those after it.
static float *step_from(Trainer *t, const float *before, Device *const devices[], int k, int first,
                        int n, double *loss) {
    const float lr = 0.1f;
    Rows rows = rows_from(first, n);
    for (int i = 0; i < k; i++) tensor_write(flat_parameters(t->net, devices[i]).data, before);
    *loss = t->dp ? (double)item(dp_step(t->dp, &rows.X, &rows.y, lr))
                  : ddp_train_on(t->ddp, first, n, t->way->micro_steps, lr);
    return params_on(t->net, devices[0]);
}

// ---- all ways do what one device does ----------------------------------------------------------

static const Way ways[] = {
    {"DDP, one bucket", 1, .ddp.bucket_bytes = ONE_BUCKET, .buckets = 1},
    {"DDP", 1, .ddp.bucket_bytes = 0},
    {"DDP, buckets of 4 KB", 1, .ddp.bucket_bytes = 4 << 10, .buckets = 4},
    {"DDP, a bucket for each parameter", 1, .ddp.bucket_bytes = 1, .buckets = 8},
    {"DDP, searched", 1, .ddp = {.bucket_bytes = 64 << 10, .find_unused = true}},
    {"DDP in 2 parts", 2, .ddp.bucket_bytes = 64 << 10, .other_bits = true},
    {"DDP in 4 parts", 4, .ddp.bucket_bytes = 8 << 10, .other_bits = true},
    {"DP", .gathers = DP_OUTPUTS, .other_bits = true},
    {"DP, sums", .gathers = DP_SUMMED_LOSSES, .other_bits = true},
};

// Step after step, each from the parameters that one device has come to. (LeNet has thousands of
// ReLUs, and sooner or later a last digit decides on which side of zero one of them is.) The star
// adds up the ranks in the same order whichever bucket a number is in, so there the bits are equal.
// On two devices, DP's chain adds the same two numbers.
static void check_ways(Device *const devices[], int k, bool same_bits) {
    Trainer one = trainer_new(devices, 1, &alone), trainers[COUNT(ways)];
    double expected, loss;
    for (size_t w = 0; w < COUNT(ways); w++) {
        trainers[w] = trainer_new(devices, k, &ways[w]);
        if (ways[w].buckets) assert_int_equal(trainers[w].ddp->buckets.n, ways[w].buckets);
    }
    for (int step = 0; step < STEPS; step++, free_kept()) {
        int first_row = step % 5 * BATCH, n = step == 4 ? 13 : BATCH;
        const float *before = params_on(one.net, devices[0]), *first = NULL;
        const float *after = step_from(&one, before, devices, 1, first_row, n, &expected);
        assert_true(isfinite(expected));
        for (size_t w = 0; w < COUNT(ways); w++) {
            const float *got = step_from(&trainers[w], before, devices, k, first_row, n, &loss);
            double apart = relative_difference(got, after, before, PARAMS);
            if (!(apart <= 1e-5) || !(fabs(loss - expected) <= 1e-5 * expected))
                fail_msg("%s on %d devices: parameters differ by %g of what they learned, the loss "
                         "is %.9g, expected %.9g",
                         ways[w].name, k, apart, loss, expected);
            if (w == 0) first = got;
            bool same_order = !ways[w].other_bits || (k == 2 && trainers[w].dp);
            if (same_bits && same_order) assert_memory_equal(got, first, FLOATS);
        }
    }
    for (size_t w = 0; w < COUNT(ways); w++) trainer_free(&trainers[w]);
    trainer_free(&one);
}

static void test_ways(void **state) {
    const int ks[] = {1, 2, 3, 4, 7};
    Device *devices[MOST];
    devices_under_test(state, MOST, devices);
    bool simulated_gpus = SIMULATED && device_gpu(devices[0]) >= 0;
    for (int ring = 0; ring < 2; ring++) {
        choose_allreduce(ring ? "ring" : "star");
        for (int j = simulated_gpus ? 1 : 0; j < (SANITIZED ? 3 : 5); j++)
            if ((ks[j] != 2 && ks[j] != 4) || !ring) check_ways(devices, ks[j], !ring);
    }
    choose_allreduce("star");
}

// ---- losses inside forward, and unequal shards -------------------------------------------------

// Sums are right, and so is a mean of means if shards are equal; else it is not.
static void test_mean_of_means(void **state) {
    Device *devices[2];
    devices_under_test(state, 2, devices);
    for (int unequal = 0; unequal < 2; unequal++) {
        Rows rows = rows_from(0, unequal ? 3 : BATCH); // 2 and 1
        const float *right = NULL;
        for (DpGathers gathers = DP_OUTPUTS; gathers <= DP_SUMMED_LOSSES; gathers++) {
            Trainer t = trainer_new(devices, 2, &(Way){.gathers = gathers});
            const float *before = params_on(t.net, devices[0]);
            dp_step(t.dp, &rows.X, &rows.y, 1);
            const float *after = params_on(t.net, devices[0]);
            if (!right) right = after;
            double apart = relative_difference(after, right, before, PARAMS);
            bool wrong = unequal && gathers == DP_MEAN_LOSSES;
            assert_true(wrong ? apart > 0.1 && isfinite(apart) : apart < 1e-5);
            trainer_free(&t);
        }
    }
    free_kept();
}

// ---- running statistics, and parameters that are not used --------------------------------------

static Module *net_with_buffers(void) {
    Module *net = Sequential(BatchNorm2d(1), Flatten(), Linear(28 * 28, 10));
    initialize(net, 1);
    return net;
}

// What device 0 of DP has seen is kept; the others' running statistics are lost. So they are those
// of one device that is given the first half only.
static void test_dp_keeps_buffers_of_the_first(void **state) {
    Device *devices[2];
    const float *values[2];
    size_t n = 0;
    devices_under_test(state, 2, devices);
    for (int k = 1; k <= 2; k++) {
        Rows seen = rows_from(0, 4 * k);
        Module *net = net_with_buffers();
        Dp *dp = dp_new(net, devices, k, DP_SUMMED_LOSSES);
        dp_step(dp, &seen.X, &seen.y, 0);
        const Tensor *buffers = flat_parameters(net, devices[0]).buffers;
        n = numel(buffers);
        values[k - 1] = values_of(buffers);
        dp_free(dp);
        module_free(net);
    }
    assert_true(n > 0 && values[0][0] != 0);
    assert_memory_equal(values[0], values[1], n * sizeof(float));
}

// A loss of the first layer alone, on k ranks, with find_unused: its update is one device's, and
// the other parameters stay as they are, to the bit.
static void test_unused(void **state) {
    const Way way = {"unused", 1, .ddp = {.bucket_bytes = 4096, .find_unused = true}};
    const size_t first = 20 * 9 + 20; // weight and bias
    Device *devices[2];
    Tensor *losses[2];
    const float *before = NULL, *after[3];
    devices_under_test(state, 2, devices);
    for (int k = 1; k <= 2; k++) {
        Trainer t = trainer_new(devices, k, &way);
        before = params_on(t.net, devices[0]);
        Shards s = shards_of(rows_from(0, 8), devices, k);
        for (int i = 0; i < k; i++) {
            Tensor *W = parameter_data(find_parameter(t.net, "0.weight"), devices[i]);
            Tensor *b = parameter_data(find_parameter(t.net, "0.bias"), devices[i]);
            losses[i] = sum(conv2d(s.X[i], W, b));
        }
        ddp_backward(t.ddp, losses);
        ddp_update(t.ddp, 0.1f, 8);
        check_replicas_equal(t.net, devices, k);
        after[k] = params_on(t.net, devices[0]);
        assert_memory_equal(after[k] + first, before + first, (PARAMS - first) * sizeof(float));
        trainer_free(&t);
    }
    assert_true(relative_difference(after[2], after[1], before, first) < 1e-5);
}

// ---- bytes -------------------------------------------------------------------------------------

// What the ledger has of device i.
static void check_traffic(Device *const devices[], int k, int i, Traffic expected) {
    uint64_t sent = 0, received = 0;
    for (int j = 0; j < k; j++)
        if (j != i) {
            sent += ledger_bytes(devices[i], devices[j]);
            received += ledger_bytes(devices[j], devices[i]);
        }
    assert_int_equal(sent, expected.sent);
    assert_int_equal(received, expected.received);
}

static void test_dp_bytes(void **state) {
    Device *devices[4];
    devices_under_test(state, 4, devices);
    for (int which = 0; which < 12; which++) {
        int rows = which % 2 ? 11 : 21, k = which / 6 ? 4 : 2;
        Rows seen = rows_from(0, rows);
        Module *net = which % 2 ? net_with_buffers() : lenet_modules(10);
        initialize(net, 1);
        Dp *dp = dp_new(net, devices, k, (DpGathers)(which / 2 % 3));
        ledger_reset();
        dp_step(dp, &seen.X, &seen.y, 0.1f);
        for (int i = 0; i < k; i++)
            check_traffic(devices, k, i, dp_bytes(dp, i, rows, 28 * 28, 10));
        dp_free(dp);
        module_free(net);
    }
}

// Rank 0's buffers go to all if the forward before was synchronised (before the first one: yes).
static void test_ddp_bytes(void **state) {
    const bool no_sync[] = {true, true, false, false}, crosses[] = {true, false, false, true};
    Device *devices[4];
    Tensor *losses[4], *y_hat[4];
    devices_under_test(state, 4, devices);
    for (int a = 0; a < NUM_ALLREDUCES; a++) {
        Module *net = net_with_buffers();
        choose_this_allreduce(&allreduces[a]);
        ledger_reset();
        Ddp *ddp = ddp_new(net, devices, 4, (DdpOptions){.bucket_bytes = 1});
        assert_int_equal(ledger_bytes_between_devices(),
                         3 * (parameter_bytes(net) + buffer_bytes(net)));
        Shards s = shards_of(rows_from(0, 8), devices, 4);
        ledger_reset();
        ddp_step(ddp, s.X, s.y, 0.1f, 8, losses);
        synchronize_all();
        for (int i = 0; i < 4; i++) { check_traffic(devices, 4, i, ddp_bytes(ddp, i)); }
        for (int f = 0; f < 4; f++) {
            s = shards_of(rows_from(0, 8), devices, 4);
            ddp_no_sync(ddp, no_sync[f]);
            synchronize_all();
            ledger_reset();
            ddp_forward(ddp, s.X, y_hat);
            synchronize_all();
            assert_int_equal(ledger_bytes_between_devices(),
                             crosses[f] ? 3 * buffer_bytes(net) : 0);
        }
        ddp_free(ddp);
        module_free(net);
    }
    choose_allreduce("star");
}

// ---- the sampler -------------------------------------------------------------------------------

// (PyTorch's lists, for some of these: test_ddp_reference.c.)
CASE(test_sampler) {
    const int counts[] = {1, 7, 12, 101};
    for (int c = 0; c < 4 * 7 * 3; c++) {
        int n = counts[c / 21], k = c / 3 % 7 + 1, indices[101], seen[101] = {0};
        SamplerMode mode = (SamplerMode)(c % 3);
        for (int rank = 0; rank < k; rank++) {
            DistributedSampler s = {n, k, rank, mode, true, 5, 2};
            int mine = sampler_count(&s), most = n / k + (mode != SAMPLER_DROP && n % k > 0);
            assert_int_equal(mine, mode == SAMPLER_EXACT ? n / k + (rank < n % k) : most);
            sampler_indices(&s, indices);
            for (int i = 0; i < mine; i++) seen[indices[i]]++;
        }
        for (int i = 0; i < n; i++)
            assert_true((mode == SAMPLER_DROP || seen[i] >= 1) &&
                        (mode == SAMPLER_PAD || seen[i] <= 1));
    }
}

CASE(test_sampler_epochs) {
    int order[3][50];
    DistributedSampler s = {100, 2, 1, SAMPLER_PAD, true, 5, 0};
    for (int i = 0; i < 3; i++) { // the second time forgotten: the same order once more
        sampler_set_epoch(&s, i / 2);
        sampler_indices(&s, order[i]);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
}

// ---- mistakes ----------------------------------------------------------------------------------

enum { EARLY, OTHER_ORDER, UNUSED };

static void (*ddps_hook)(Tensor *t, void *arrival);

static void call_twice(Tensor *t, void *arrival) {
    ddps_hook(t, arrival);
    ddps_hook(t, arrival);
}

static void count_twice(Tensor *t) {
    ddps_hook = t->grad_final;
    when_grad_is_final(t, call_twice, t->grad_final_context);
}

static void swap_buckets(Tensor **a, Tensor **b) {
    Tensor *first = *a;
    *a = *b;
    *b = first;
}

static void make_mistake(int which) {
    Device *devices[2] = {model_device(0), model_device(1)};
    const Rows rows = {{.ndim = 4, .shape = {8, 1, 28, 28}, .device = host()},
                       {.ndim = 1, .shape = {8}, .device = host()}};
    Tensor *y_hat[2], *losses[2];
    Trainer t = trainer_new(devices, 2, &(Way){"", 1, .ddp.bucket_bytes = 8 << 10});
    if (which == EARLY) // bucket 1 begins with 3.weight
        count_twice(parameter_data(find_parameter(t.net, "3.weight"), devices[1]));
    if (which == OTHER_ORDER) swap_buckets(&t.ddp->ranks[1][0].grads, &t.ddp->ranks[1][1].grads);
    Shards s = shards_of(rows, devices, 2);
    ddp_forward(t.ddp, s.X, y_hat);
    for (int i = 0; i < 2; i++) {
        losses[i] = sum(cross_entropy(y_hat[i], s.y[i]));
        // a loss of something else, in which the last layer's parameters have no part
        if (which == UNUSED) {
            begin_step(devices[i]);
            Tensor *W = parameter_data(find_parameter(t.net, "0.weight"), devices[i]);
            losses[i] = sum(relu(reshape_to(W, 4, (const int[]){20, 1, 3, 3})));
        }
    }
    ddp_backward(t.ddp, losses);
}
DIES("bucket 1 of rank 1 is sent before the gradient of", make_mistake(EARLY))
DIES("rank 0 is at bucket 0, rank 1 at bucket 1", make_mistake(OTHER_ORDER))
DIES("the parameter 0.bias got no gradient on rank 0", make_mistake(UNUSED))

int main(void) {
    const struct CMUnitTest tests[] = {
        UNLESS_SIMULATED(expect_deaths),
        UNLESS_SIMULATED(test_sampler),
        UNLESS_SIMULATED(test_sampler_epochs),
        ON_BOTH(test_ways),
        ON_BOTH(test_mean_of_means),
        ON_BOTH(test_dp_keeps_buffers_of_the_first),
        ON_BOTH(test_unused),
        ON_BOTH(test_dp_bytes),
        ON_BOTH(test_ddp_bytes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_kept();
    data_iter_free(iter);
    dataset_free(dataset);
    devices_close();
    return failed;
}
