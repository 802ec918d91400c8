// test_accumulate.c: chapter 8's gradient accumulation and learning-rate rules: one device that
// adds up the gradients of four parts has the bits of four devices with chapter 2's star, by
// chapter 5's DataParallel and by chapter 6's DDP.
#include "test.h"

#include <unistd.h>

#include "common/data/fashion_mnist.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/08_many_machines/accumulate.h"
#include "chapters/08_many_machines/lr_rules.h"

// The book's sizes: minibatches of 256, lr 0.2.
enum { BATCH = SANITIZED ? 32 : 256, STEPS = SANITIZED ? 2 : 8, RANKS = 4 };
static const float LR = 0.2f;

static Dataset *images;

static void open_k(void **state, int k, Device *devices[]) {
    bool gpu = strcmp(*state, "cuda") == 0;
    if (gpu && num_gpus() == 0) skip("no GPU");
    for (int i = 0; i < k; i++) devices[i] = gpu ? try_gpu(i) : cpu_device(i);
}

// ---- a training, in three ways -----------------------------------------------------------------

typedef struct Training8 {
    Module *net;
    Device **devices;
    int k, parts; // of each minibatch
    // one of these:
    Accumulator *accumulator;
    DataParallel *dp;
    Ddp *ddp;
} Training8;

static void step(Training8 *t, const Tensor *X, const Tensor *y) {
    Tensor *X_shards[RANKS], *y_shards[RANKS], *losses[RANKS];
    if (t->accumulator) {
        accumulate_batch(t->accumulator, X, y, t->parts);
        int rows = accumulate_end(t->accumulator, NULL);
        assert_int_equal(rows, X->shape[0]);
        sgd_step(t->net, t->devices[0], LR, rows);
    }
    if (t->dp) train_step(t->dp, X, y, LR, losses);
    if (t->ddp) {
        for (int i = 0; i < t->k; i++) begin_step(t->devices[i]);
        split_batch(X, y, t->devices, t->k, X_shards, y_shards);
        ddp_step(t->ddp, X_shards, y_shards, LR, X->shape[0], losses);
    }
    synchronize_all();
}

static float *run(Training8 *t, const Dataset *data, int batch, size_t *n) {
    Tensor *X, *y;
    DataIter *iter = data_iter_new(data, batch, true, 3);
    data_iter_start(iter, 0);
    for (int s = 0; s < STEPS && data_iter_next(iter, &X, &y); s++) step(t, X, y);
    data_iter_free(iter);
    Tensor *params = flat_parameters(t->net, t->devices[0]).data;
    *n = numel(params);
    return tensor_values(params);
}

static float *with_dp(Module *net, Device *devices[], int batch, size_t *n) {
    initialize(net, 1);
    DataParallel dp = data_parallel(net, devices, RANKS, BN_LOCAL);
    return run(&(Training8){.net = net, .devices = devices, .k = RANKS, .dp = &dp}, images, batch,
               n);
}

static float *with_ddp(Module *net, Device *devices[], int batch, size_t *n) {
    initialize(net, 1);
    Ddp *ddp = ddp_new(net, devices, RANKS, (DdpOptions){.keep_buffers = true});
    float *values =
        run(&(Training8){.net = net, .devices = devices, .k = RANKS, .ddp = ddp}, images, batch, n);
    ddp_free(ddp);
    return values;
}

static float *with_parts(Module *net, Device *devices[], AccumulateOrder order, int batch,
                         size_t *n) {
    initialize(net, 1);
    Accumulator a = accumulator_new(net, devices[0], order);
    float *values =
        run(&(Training8){.net = net, .devices = devices, .k = 1, .parts = RANKS, .accumulator = &a},
            images, batch, n);
    accumulator_free(&a);
    return values;
}

// How many of the n numbers differ in a bit.
static size_t differing(const float *a, const float *b, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return count;
}

// ---- equal to the bit --------------------------------------------------------------------------

// 250 and 31 are not divided by 4: there are parts of two sizes.
static void test_same_bits_as_ranks(void **state) {
    Device *devices[RANKS];
    size_t n;
    const int sizes[] = {BATCH, SANITIZED ? 31 : 250};
    open_k(state, RANKS, devices);
    choose_allreduce("star");
    Module *net = lenet_modules(10);
    for (int s = 0; s < 2; s++) {
        float *apart = with_parts(net, devices, PARTS_APART, sizes[s], &n);
        float *dp = with_dp(net, devices, sizes[s], &n);
        float *ddp = with_ddp(net, devices, sizes[s], &n);
        assert_int_equal(differing(apart, dp, n), 0);
        assert_int_equal(differing(apart, ddp, n), 0);
        free(apart);
        free(dp);
        free(ddp);
    }
    module_free(net);
}
// The CPU's kernels sum over a part's rows before they add to what is there, so in place is equal,
// too: parts of one group of 16 rows, of some, and of more than 32 groups. (No one promises that
// for a GPU.)
static void test_in_place(void **state) {
    Device *devices[RANKS];
    size_t n;
    const int sizes[] = {64, 250, 3000};
    if (SANITIZED) skip("too long with sanitizers");
    open_k(state, RANKS, devices);
    Module *net = lenet_modules(10);
    for (int s = 0; s < 3; s++) {
        float *apart = with_parts(net, devices, PARTS_APART, sizes[s], &n);
        float *in_place = with_parts(net, devices, PARTS_IN_PLACE, sizes[s], &n);
        assert_int_equal(differing(apart, in_place, n), 0);
        free(apart);
        free(in_place);
    }
    module_free(net);
}

// With batch norm: the same parameters to the bit, for training does not read running statistics;
// these are not those of a rank.
static void test_batch_norm(void **state) {
    Device *devices[RANKS];
    size_t n;
    if (SANITIZED) skip("too long with sanitizers");
    open_k(state, RANKS, devices);
    choose_allreduce("star");
    Module *net = narrow_resnet18(10);
    float *apart = with_parts(net, devices, PARTS_APART, 64, &n);
    Tensor *buffers = flat_parameters(net, devices[0]).buffers;
    size_t num_buffers = numel(buffers);
    float *of_parts = tensor_values(buffers);
    float *dp = with_dp(net, devices, 64, &n);
    float *of_rank = tensor_values(flat_parameters(net, devices[0]).buffers);
    assert_int_equal(differing(apart, dp, n), 0);
    assert_true(differing(of_parts, of_rank, num_buffers) > num_buffers / 2);
    free(apart);
    free(dp);
    free(of_parts);
    free(of_rank);
    module_free(net);
}

// Parts one by one, of other sizes: the rows and the losses of all of them.
static void test_rows_and_loss(void **state) {
    Device *devices[1];
    Tensor *X, *y;
    double whole, loss;
    open_k(state, 1, devices);
    Module *net = lenet_modules(10);
    initialize(net, 1);
    DataIter *iter = data_iter_new(images, 12, false, 0);
    data_iter_first(iter, &X, &y);
    Accumulator a = accumulator_new(net, devices[0], PARTS_APART);
    accumulate(&a, X, y);
    assert_int_equal(accumulate_end(&a, &whole), 12);
    accumulate_batch(&a, X, y, 5);
    assert_int_equal(a.parts, 5);
    assert_int_equal(accumulate_end(&a, &loss), 12);
    assert_true(fabs(loss - whole) <= 1e-5 * whole && whole > 0);
    accumulator_free(&a);
    data_iter_free(iter);
    module_free(net);
}

// ---- learning rates ----------------------------------------------------------------------------

static void test_rule_lr(void **state) {
    (void)state;
    const double base = 0.001; // the text: four GPUs, 0.002
    assert_true(rule_lr(RULE_NONE, base, 4, 7, 5) == base);
    assert_true(fabs(rule_lr(RULE_SQRT, base, 4, 0, 5) - 0.002) < 1e-15);
    assert_true(fabs(rule_lr(RULE_LINEAR, base, 4, 0, 5) - 0.004) < 1e-15);
    for (int step = 0; step <= 5; step++) // by the same amount each time
        assert_true(fabs(rule_lr(RULE_WARM_UP, base, 4, step, 5) - (0.001 + 0.0006 * step)) <
                    1e-15);
    assert_true(fabs(rule_lr(RULE_WARM_UP, base, 4, 99, 5) - 0.004) < 1e-15);
    assert_true(fabs(rule_lr(RULE_WARM_UP, base, 4, 0, 0) - 0.004) < 1e-15); // no warm-up at all
}

// A job is the same wherever it is done; what diverges is a result.
static void test_rule_jobs(void **state) {
    Device *devices[2];
    RuleJob jobs[MOST_RULE_JOBS];
    if (SANITIZED) skip("too long with sanitizers");
    open_k(state, 2, devices);
    assert_int_equal(rule_jobs(RULES_SGD, false, 1, 3, jobs), 2 * 3 * 9);
    for (int optimizer = 0; optimizer < NUM_RULE_OPTIMIZERS; optimizer++) {
        RuleJob job = jobs[2];
        job.optimizer = (RuleOptimizer)optimizer;
        job.images = 256;
        RuleResult a = run_rule_job(&job, devices[0], images, images);
        RuleResult b = run_rule_job(&job, devices[1], images, images);
        assert_true(a.accuracy == b.accuracy && a.loss == b.loss && !a.diverged);
        assert_true(a.updates == 2 * 256 / 32 && isfinite(a.loss));
    }
    RuleJob wild = jobs[0];
    wild.images = 256;
    wild.base_lr = 1e10;
    RuleResult r = run_rule_job(&wild, devices[0], images, images);
    assert_true(r.diverged == 1 && r.accuracy == 0.1 && r.updates < 64);
}

// With 16 times the batch the narrow ResNet-18 makes 8 updates: no rule is judged by these.
static void test_few_updates_judge_no_rule(void **state) {
    (void)state;
    RuleJob jobs[MOST_RULE_JOBS];
    RuleResult results[MOST_RULE_JOBS] = {0};
    char said[8192] = "";
    int n = rule_jobs(RULES_SGD, false, 1, 1, jobs), screen = dup(STDOUT_FILENO);
    for (int j = 0; j < n; j++)
        results[j].updates =
            jobs[j].epochs * (jobs[j].images / (jobs[j].base_batch * jobs[j].times));
    FILE *file = tmpfile();
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    print_rule_results(jobs, results, n);
    fflush(stdout);
    dup2(screen, STDOUT_FILENO);
    close(screen);
    rewind(file);
    assert_true(fread(said, 1, sizeof said - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(said, "Batch x16: 8 updates instead of 128. So few say nothing"));
    assert_non_null(strstr(said, "Batch x16: 32 updates instead of 512. Without a rule"));
    assert_null(strstr(said, "8 updates instead of 128. Without"));
}

static int open_images(void **state) {
    (void)state;
    images = fashion_mnist_open(NULL, true, 6000);
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
        ON_BOTH(test_same_bits_as_ranks),
        {"cpu: test_in_place", test_in_place, NULL, NULL, (void *)"cpu"},
        ON_BOTH(test_batch_norm),
        ON_BOTH(test_rows_and_loss),
        UNLESS_SIMULATED(test_rule_lr),
        ON_BOTH_UNLESS_SIMULATED(test_rule_jobs),
        UNLESS_SIMULATED(test_few_updates_judge_no_rule),
    };
    return cmocka_run_group_tests(tests, open_images, close_all);
}
