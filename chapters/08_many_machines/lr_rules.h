// lr_rules.h: which learning rate goes with a batch that is 4 or 16 times as large? Four rules,
// compared on two networks. Sources: the text (batch x4, lr x2); Goyal et al., "Accurate, large
// minibatch SGD", 2017; the others are named in lr_rules.c.
#ifndef LR_RULES_H
#define LR_RULES_H

#include "common/data/fashion_mnist.h"

#include <stdio.h>

typedef enum { RULE_NONE, RULE_SQRT, RULE_LINEAR, RULE_WARM_UP, NUM_LR_RULES } LrRule;
extern const char *const lr_rule_names[NUM_LR_RULES]; // "none", "square root", ...

// The learning rate of update `step` (from 0), with a batch `times` as large as the one that
// base_lr is for. RULE_WARM_UP begins with base_lr and grows by the same amount in each update, up
// to times * base_lr, which update warm_up_steps is the first to have. (No other rule asks for
// warm_up_steps.)
double rule_lr(LrRule rule, double base_lr, double times, long step, long warm_up_steps);

typedef enum { RULES_SGD, RULES_ADAM, NUM_RULE_OPTIMIZERS } RuleOptimizer;
extern const char *const rule_optimizer_names[NUM_RULE_OPTIMIZERS]; // "gradient descent", "Adam"

// LeNet, chapter 5's narrow ResNet-18, and ResNet-18.
typedef enum { RULES_LENET, RULES_NARROW, RULES_RESNET18, NUM_RULE_NETWORKS } RuleNetwork;
extern const char *const rule_network_titles[NUM_RULE_NETWORKS];

// A training, as plain data: all ranks make the same list, and each does its part of it.
typedef struct RuleJob {
    RuleNetwork network;
    RuleOptimizer optimizer;
    LrRule rule;
    int times;      // the batch is so many parts of base_batch images
    int base_batch; // images
    double base_lr; // that goes with base_batch
    int images;     // to train on: the first ones
    int epochs;
    double start_times; // all drawn weights start so many times as large as the book's
    uint64_t seed;      // of the start, and of the order of the images
} RuleJob;

// What came of it: doubles alone, so that ranks can all-gather them.
typedef struct RuleResult {
    double accuracy; // on the test images, 0..1; if diverged, that of guessing
    double diverged; // 1: the loss was not finite at some update, and training ended there; else 0
    double loss;     // mean of the last epoch; not finite if diverged
    double updates;  // made
    double last_lr;  // of the last update
    double lr_sum;   // of all updates
} RuleResult;
enum { RULE_RESULT_DOUBLES = sizeof(RuleResult) / sizeof(double) };

// The jobs: for each network and seed one with the base batch, for which all rules are the same,
// then each rule with 4 and with 16 times the batch. Networks are LeNet and the narrow ResNet-18;
// with `full`, LeNet and, from one seed, ResNet-18 as it is. Returns how many. To be dealt out, job
// j to rank j % W.
enum { MOST_RULE_JOBS = 64, MOST_JOB_SEEDS = 3 };
int rule_jobs(RuleOptimizer optimizer, bool full, uint64_t first_seed, int seeds,
              RuleJob jobs[MOST_RULE_JOBS]);

// The most training images that a job takes.
int rule_images(const RuleJob jobs[], int n);

// Trains on one device (a CPU device gets one thread, and keeps it) and evaluates. The same job
// gives the same result on whichever rank. die()s if `train` has fewer than
// job->images. Once interrupted() it stops; then the accuracy is NaN.
RuleResult run_rule_job(const RuleJob *job, Device *device, const Dataset *train,
                        const Dataset *test);

// All ranks together: each does its part of the jobs, on its first device, and then all have all
// results.
void deal_rule_jobs(const RuleJob jobs[], RuleResult results[], int n, const Dataset *train,
                    const Dataset *test);

// ---- lr_rules_shown.c ----------------------------------------------------------------------------

// A table (mean and range over the seeds), and what it says, in words.
void print_rule_results(const RuleJob jobs[], const RuleResult results[], int n);
// The same as figures, for plots/lr_rules.gp: a line for each network, rule and batch.
void write_rule_results(FILE *csv, const RuleJob jobs[], const RuleResult results[], int n);
// Both, and the picture: book_csv("_lr_rules.csv") and book_output("_lr_rules.png").
void show_rule_results(const RuleJob jobs[], const RuleResult results[], int n);

#endif
