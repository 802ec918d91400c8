// test_lr_rules.c: chapter 8's learning-rate rules. (Gradient accumulation: test_trainers.c.)
#include "common/data/fashion_mnist.h"
#include "chapters/08_many_machines/lr_rules.h"
#include "cases.h"

static Dataset *images;

TEST_UNLESS_SIMULATED(test_rule_lr) {
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
TEST_ON_BOTH_UNLESS_SIMULATED(test_rule_jobs) {
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
    images = fashion_mnist_open(NULL, true, 6000);
    int failed = run_all("lr_rules", NULL, devices_end);
    dataset_free(images);
    return failed;
}
