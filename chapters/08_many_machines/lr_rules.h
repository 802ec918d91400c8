// lr_rules.h: which learning rate goes with a minibatch that is 4 or 16 times as large? Sources:
// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014; Goyal et
// al., "Accurate, large minibatch SGD", 2017.
#pragma once

#include "common/data/fashion_mnist.h"

typedef enum { RULE_NONE, RULE_SQRT, RULE_LINEAR, RULE_WARM_UP, NUM_LR_RULES } LrRule;
extern const char *const lr_rule_names[NUM_LR_RULES]; // "none", "square root", ...

// The learning rate of update `step` (from 0), for minibatches `times` as large as those that
// base_lr is for. RULE_WARM_UP starts with base_lr and grows by the same amount in each update, up
// to times * base_lr in update warm_up_steps. (Other rules ignore warm_up_steps.)
double rule_lr(LrRule rule, double base_lr, double times, long step, long warm_up_steps);

typedef enum { RULES_SGD, RULES_ADAM } RuleOptimizer;

// A training of LeNet, as plain data.
typedef struct RuleJob {
    RuleOptimizer optimizer;
    LrRule rule;
    int times;      // a minibatch has so many parts of base_batch images
    int base_batch; // images
    double base_lr; // for base_batch
    int images;     // to train on: the first ones
    int epochs;
    double start_times; // the drawn weights start this many times as large as the book's
    uint64_t seed;      // of the start, and of the order of the images
} RuleJob;

// What came of it: doubles alone, so that ranks can gather them.
typedef struct RuleResult {
    double accuracy; // on the test images, 0..1
    double loss;     // mean of the last epoch
    double updates;  // made
    double last_lr;  // of the last update
} RuleResult;

// For each seed one job with the base minibatch, for which all rules are the same, then each rule
// with 4 and with 16 times the minibatch, all on `images` images. Returns how many jobs there are.
enum { MOST_RULE_JOBS = 27, MOST_JOB_SEEDS = 3 };
int rule_jobs(RuleOptimizer optimizer, uint64_t first_seed, int seeds, int images,
              RuleJob jobs[MOST_RULE_JOBS]);

// Trains on one device (a CPU device keeps one thread) and evaluates, with the same result on every
// rank. If the loss is not finite, it ends there, with the accuracy of guessing.
RuleResult run_rule_job(const RuleJob *job, Device *device, const Dataset *train,
                        const Dataset *test);

// By all ranks: each does its part of the jobs, and then all have all results.
void deal_rule_jobs(const RuleJob jobs[], RuleResult results[], int n, const Dataset *train,
                    const Dataset *test);
