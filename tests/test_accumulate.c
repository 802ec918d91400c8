// test_accumulate.c: chapter 8's gradient accumulation and learning-rate rules: one device that
// adds up the gradients of four parts has the bits of four devices with chapter 2's star, by
// chapter 5's DataParallel and by chapter 6's DDP.
#include "common/data/fashion_mnist.h"
#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/06_data_parallel_and_ddp/ddp.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "chapters/08_many_machines/step.h"
#include "chapters/08_many_machines/lr_rules.h"
#include "cases.h"

enum { STEPS = 3, RANKS = 4 };
static const float LR = 0.2f;

static Dataset *images;

// ---- a training, in three ways ------------------------------------------------------------------

typedef enum { IN_PARTS, BY_DATA_PARALLEL, BY_DDP } Way;

// Parameters after some steps, and the running statistics behind them, on device 0.
static float *train(Module *net, Device *devices[], Way way, int batch, size_t *n) {
    initialize(net, 1);
    DataParallel dp = {0};
    Ddp *ddp = NULL;
    if (way == IN_PARTS) place_on(net, devices[0]);
    if (way == BY_DATA_PARALLEL) dp = data_parallel(net, devices, RANKS, BN_LOCAL);
    if (way == BY_DDP) ddp = ddp_new(net, devices, RANKS, (DdpOptions){.keep_buffers = true});
    Tensor *X, *y, *X_shards[RANKS], *y_shards[RANKS], *losses[RANKS];
    DataIter *iter = data_iter_new(images, batch, true, 3);
    data_iter_start(iter, 0);
    for (int s = 0; s < STEPS && data_iter_next(iter, &X, &y); s++) {
        if (way == IN_PARTS) {
            accumulate(net, devices[0], X, y, RANKS);
            sgd_step(net, devices[0], LR, X->shape[0]);
        } else if (way == BY_DATA_PARALLEL) {
            train_step(&dp, X, y, LR, losses);
        } else {
            for (int i = 0; i < RANKS; i++) begin_step(devices[i]);
            split_batch(X, y, devices, RANKS, X_shards, y_shards);
            ddp_step(ddp, X_shards, y_shards, LR, X->shape[0], losses);
        }
        synchronize_all();
    }
    FlatParameters flat = flat_parameters(net, devices[0]);
    float *values = values_of_all((Tensor *[]){flat.data, flat.buffers}, 2, n);
    keep_both(values, NULL);
    data_iter_free(iter);
    if (ddp) ddp_free(ddp);
    return values;
}

// ---- equal to the bit --------------------------------------------------------------------------

// 250 and 31 are not divisible by 4: there are parts of two sizes. The CPU's kernels sum over a
// part's rows before they add to what is there, so this is the order of four ranks. (GPUs do not
// promise that.) With batch norm the parameters are the same, because training does not read
// running statistics; these are not a rank's.
static void test_same_bits_as_ranks(void **state) {
    const struct {
        Module *(*make)(int classes);
        int batch;
        Way first, last; // compared with IN_PARTS
    } cases[] = {{lenet_modules, SANITIZED ? 31 : 250, BY_DATA_PARALLEL, BY_DDP},
                 {lenet_modules, SANITIZED ? 32 : 256, BY_DDP, BY_DDP},
                 {narrow_resnet18, 64, BY_DATA_PARALLEL, BY_DATA_PARALLEL},
                 {lenet_modules, 3000, BY_DDP, BY_DDP}};
    Device *devices[RANKS];
    size_t n;
    devices_under_test(state, RANKS, devices);
    bool exact = device_gpu(devices[0]) < 0;
    choose_allreduce("star");
    for (size_t c = 0; c < (SANITIZED ? 2 : COUNT(cases)); c++) {
        Module *net = cases[c].make(10);
        const float *parts = train(net, devices, IN_PARTS, cases[c].batch, &n);
        size_t params = numel(flat_parameters(net, devices[0]).data), differ = 0;
        for (Way way = cases[c].first; way <= cases[c].last; way++) {
            const float *other = train(net, devices, way, cases[c].batch, &n);
            for (size_t i = 0; i < params; i++)
                assert_true(exact ? parts[i] == other[i] : fabsf(parts[i] - other[i]) < 1e-4f);
            for (size_t i = params; i < n; i++) differ += parts[i] != other[i];
        }
        assert_true(n > params ? differ > (n - params) / 2 : params > 0);
        module_free(net);
        free_kept();
    }
}

static void test_loss(void **state) {
    Tensor *X, *y;
    Device *device = device_under_test(state);
    Module *net = lenet_modules(10);
    initialize(net, 1);
    place_on(net, device);
    DataIter *iter = data_iter_new(images, 12, false, 0);
    data_iter_first(iter, &X, &y);
    double whole = accumulate(net, device, X, y, 1), parts = accumulate(net, device, X, y, 5);
    assert_true(fabs(parts - whole) <= 1e-5 * whole && whole > 0);
    data_iter_free(iter);
    module_free(net);
}

// ---- learning rates ----------------------------------------------------------------------------

CASE(test_rule_lr) {
    const struct {
        LrRule rule;
        long step, warm_up;
        double lr; // from 0.001, four times the batch. The text: four GPUs, 0.002
    } cases[] = {
        {RULE_NONE, 7, 5, 0.001},    {RULE_SQRT, 0, 5, 0.002},     {RULE_LINEAR, 0, 5, 0.004},
        {RULE_WARM_UP, 0, 5, 0.001}, {RULE_WARM_UP, 1, 5, 0.0016}, {RULE_WARM_UP, 4, 5, 0.0034},
        {RULE_WARM_UP, 5, 5, 0.004}, {RULE_WARM_UP, 99, 5, 0.004}, {RULE_WARM_UP, 0, 0, 0.004}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        double lr = rule_lr(cases[c].rule, 0.001, 4, cases[c].step, cases[c].warm_up);
        assert_true(fabs(lr - cases[c].lr) < 1e-15);
    }
}

// A job is the same wherever it is done; what diverges is a result.
static void test_rule_jobs(void **state) {
    Device *devices[2];
    RuleJob jobs[MOST_RULE_JOBS];
    if (SANITIZED) skip("too long with sanitizers");
    devices_under_test(state, 2, devices);
    assert_int_equal(rule_jobs(RULES_SGD, 1, 3, 1024, jobs), 3 * 9);
    for (int optimizer = RULES_SGD; optimizer <= RULES_ADAM; optimizer++) {
        rule_jobs((RuleOptimizer)optimizer, 1, 1, 512, jobs);
        jobs[2].epochs = 2;
        RuleResult a = run_rule_job(&jobs[2], devices[0], images, images);
        RuleResult b = run_rule_job(&jobs[2], devices[1], images, images);
        assert_true(a.accuracy == b.accuracy && a.loss == b.loss && isfinite(a.loss));
        assert_true(a.updates == 2 * 512 / 256);
    }
    jobs[0].base_lr = 1e10;
    RuleResult r = run_rule_job(&jobs[0], devices[0], images, images);
    assert_true(!isfinite(r.loss) && r.accuracy == 0.1 && r.updates < 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_same_bits_as_ranks),
        ON_BOTH(test_loss),
        UNLESS_SIMULATED(test_rule_lr),
        ON_BOTH_UNLESS_SIMULATED(test_rule_jobs),
    };
    images = fashion_mnist_open(NULL, true, 6000);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dataset_free(images);
    devices_close();
    return failed;
}
