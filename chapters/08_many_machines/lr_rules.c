// lr_rules.c: see lr_rules.h.
#include "lr_rules.h"

#include "common/base/error.h"
#include "common/program/interrupt.h"
#include "common/program/progress.h"
#include "common/tensor/adam.h"
#include "common/tensor/autograd.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "step.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const lr_rule_names[NUM_LR_RULES] = {"none", "square root", "linear",
                                                 "linear with warm-up"};

// ## The rules

double rule_lr(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    if (rule == RULE_SQRT) return base_lr * sqrt(times);
    if (rule == RULE_LINEAR) return base_lr * times;
    if (rule == RULE_NONE) return base_lr;
    if (step >= warm_up_steps) return base_lr * times;
    return base_lr * (1 + (times - 1) * (double)step / (double)warm_up_steps);
}

// The weights start larger than the book's, which would spend many of the few updates with large
// minibatches on LeNet's plateau (chapter 4). Of 0.1, 0.2, 0.3 and 0.5, the base rate 0.3 is the
// best for 64 of 15,000 images (three seeds each: 0.835, 0.843, 0.869, 0.855). Adam's is not tuned.
int rule_jobs(RuleOptimizer optimizer, uint64_t first_seed, int seeds, int images,
              RuleJob jobs[MOST_RULE_JOBS]) {
    int n = 0;
    for (int s = 0; s < seeds; s++) {
        RuleJob job = {.optimizer = optimizer,
                       .times = 1,
                       .base_batch = 64,
                       .base_lr = optimizer == RULES_ADAM ? 0.001 : 0.3,
                       .images = images,
                       .epochs = 10,
                       .start_times = 10,
                       .seed = first_seed + (uint64_t)s};
        jobs[n++] = job;
        for (job.times = 4; job.times <= 16; job.times *= 4)
            for (job.rule = RULE_NONE; job.rule < NUM_LR_RULES; job.rule++) jobs[n++] = job;
    }
    return n;
}

static Module *network_of(const RuleJob *job) {
    Module *net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(net, job->seed);
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) {
        Tensor *start = all.list[p]->start;
        for (size_t i = 0; all.list[p]->deviation > 0 && i < numel(start); i++)
            start->data[i] *= (float)job->start_times;
    }
    return net;
}

static Adam *adam_of(const Module *net, const Device *device) {
    Parameters all = parameters_of(net);
    Tensor **params = xmalloc(sizeof *params * (size_t)all.n);
    for (int p = 0; p < all.n; p++) params[p] = parameter_data(all.list[p], device);
    Adam *adam = adam_new(params, all.n, (AdamOptions){0});
    free(params);
    return adam;
}

// How far rank 0 is with its jobs, in parts of minibatches. NULL: not shown
static Progress *progress;

static long parts_of(const RuleJob *job) {
    return (long)job->epochs * (job->images / (job->base_batch * job->times)) * job->times;
}

// The large minibatch is accumulated in parts of base_batch images, with the same bits as on
// `times` ranks. Images that do not fill a minibatch at the end of an epoch are left out.
static void train_rule_epoch(const RuleJob *job, Module *net, Device *device, Adam *adam,
                             DataIter *iter, RuleResult *r) {
    Tensor *X, *y;
    int batch = job->base_batch * job->times, rows = 0;
    long warm_up = (long)job->epochs * (job->images / batch) / 4;
    double sum = 0;
    while (isfinite(sum) && !interrupted() && data_iter_next(iter, &X, &y)) {
        if (X->shape[0] < batch) break;
        r->last_lr = rule_lr(job->rule, job->base_lr, job->times, (long)r->updates, warm_up);
        sum += accumulate(net, device, X, y, job->times);
        if (adam)
            adam_step(adam, (float)r->last_lr, batch);
        else
            sgd_step(net, device, (float)r->last_lr, batch);
        r->updates++;
        rows += batch;
        for (int part = 0; progress && part < job->times; part++)
            progress_step(progress, "comparing learning rates");
    }
    r->loss = sum / rows;
}

RuleResult run_rule_job(const RuleJob *job, Device *device, const Dataset *train,
                        const Dataset *test) {
    RuleResult r = {.accuracy = 1.0 / FASHION_MNIST_CLASSES};
    Dataset images = *train;
    CHECK(job->images <= train->count && job->images >= job->base_batch * job->times,
          "a job's images fill a minibatch, and are there");
    images.count = job->images;
    Module *net = network_of(job);
    DataParallel dp = data_parallel(net, &device, 1, BN_LOCAL); // to be evaluated
    Adam *adam = job->optimizer == RULES_ADAM ? adam_of(net, device) : NULL;
    DataIter *iter = data_iter_new(&images, job->base_batch * job->times, true, job->seed);
    DataIter *test_iter = data_iter_new(test, 100, false, 0);
    device_set_threads(device, 1);
    for (int epoch = 0; epoch < job->epochs && isfinite(r.loss); epoch++) {
        data_iter_start(iter, epoch);
        train_rule_epoch(job, net, device, adam, iter, &r);
    }
    if (isfinite(r.loss)) r.accuracy = evaluate_accuracy_gpus(&dp, test_iter);
    synchronize(device);
    if (adam) adam_free(adam);
    data_iter_free(iter);
    data_iter_free(test_iter);
    module_free(net);
    return r;
}

// Each rank does every W-th job and leaves zeros for the others. So the sum over all ranks has the
// results of all jobs.
void deal_rule_jobs(const RuleJob jobs[], RuleResult results[], int n, const Dataset *train,
                    const Dataset *test) {
    int rank = dist_get_rank(), W = dist_get_world_size();
    long parts = 0;
    memset(results, 0, sizeof *results * (size_t)n);
    for (int j = rank; j < n; j += W) parts += parts_of(&jobs[j]);
    Progress of_rank_0 = progress_start(parts);
    progress = rank == 0 ? &of_rank_0 : NULL;
    for (int j = rank; j < n; j += W)
        results[j] = run_rule_job(&jobs[j], dist_device(), train, test);
    if (progress) progress_clear(progress);
    progress = NULL;
    dist_note("the results of the rules");
    dist_sum(NULL, (double *)results, n * (int)(sizeof *results / sizeof(double)));
}
