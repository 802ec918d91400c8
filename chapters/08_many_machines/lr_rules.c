// lr_rules.c: see lr_rules.h.
#include "lr_rules.h"

#include "common/base/error.h"
#include "common/program/interrupt.h"
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

double rule_lr(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    if (rule == RULE_SQRT) return base_lr * sqrt(times);
    if (rule == RULE_LINEAR) return base_lr * times;
    if (rule == RULE_NONE) return base_lr;
    if (step >= warm_up_steps) return base_lr * times;
    return base_lr * (1 + (times - 1) * (double)step / (double)warm_up_steps);
}

// ## The trainings

// The weights start larger than the book's, which would spend many of the few updates with large
// minibatches on LeNet's plateau (chapter 4). The base rates are small, and good with the base
// minibatch: a rule carries a rate over to another minibatch, it does not find one.
int rule_jobs(RuleOptimizer optimizer, uint64_t first_seed, int seeds, int images,
              RuleJob jobs[MOST_RULE_JOBS]) {
    int n = 0;
    for (int s = 0; s < seeds; s++) {
        RuleJob job = {.optimizer = optimizer,
                       .times = 1,
                       .base_batch = 64,
                       .base_lr = optimizer == RULES_ADAM ? 0.001 : 0.02,
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

typedef struct RuleTraining {
    const RuleJob *job;
    Device *device;
    Module *net;
    DataParallel dp; // on this device alone, to be evaluated
    Adam *adam;      // NULL: plain gradient descent
    DataIter *iter;
} RuleTraining;

static void enlarge_start(Module *net, float times) {
    Parameters all = parameters_of(net);
    for (int p = 0; p < all.n; p++) {
        bool is_drawn = all.list[p]->deviation > 0;
        Tensor *start = all.list[p]->start;
        for (size_t i = 0; is_drawn && i < numel(start); i++) start->data[i] *= times;
    }
}

static Adam *adam_of(const Module *net, const Device *device) {
    Parameters all = parameters_of(net);
    Tensor **params = xmalloc(sizeof *params * (size_t)all.n);
    for (int p = 0; p < all.n; p++) params[p] = parameter_data(all.list[p], device);
    Adam *adam = adam_new(params, all.n, (AdamOptions){0});
    free(params);
    return adam;
}

static RuleTraining open_training(const RuleJob *job, Device *device, const Dataset *images) {
    RuleTraining t = {.job = job, .device = device, .net = lenet_modules(FASHION_MNIST_CLASSES)};
    initialize(t.net, job->seed);
    enlarge_start(t.net, (float)job->start_times);
    t.dp = data_parallel(t.net, &device, 1, BN_LOCAL);
    device_set_threads(device, 1);
    if (job->optimizer == RULES_ADAM) t.adam = adam_of(t.net, device);
    t.iter = data_iter_new(images, job->base_batch * job->times, true, job->seed);
    return t;
}

// The large minibatch is accumulated in parts of base_batch images: it is what `times` ranks
// compute, to the bit. Returns the loss summed over the rows.
static double make_update(RuleTraining *t, const Tensor *X, const Tensor *y, RuleResult *r) {
    const RuleJob *job = t->job;
    long updates = (long)job->epochs * (job->images / (job->base_batch * job->times));
    r->last_lr = rule_lr(job->rule, job->base_lr, job->times, (long)r->updates, updates / 4);
    double loss = accumulate(t->net, t->device, X, y, job->times);
    if (t->adam)
        adam_step(t->adam, (float)r->last_lr, X->shape[0]);
    else
        sgd_step(t->net, t->device, (float)r->last_lr, X->shape[0]);
    r->updates++;
    return loss;
}

// Images that do not fill a minibatch at the end of an epoch are left out.
static void train_rule_epoch(RuleTraining *t, int epoch, RuleResult *r) {
    Tensor *X, *y;
    double sum = 0;
    long images = 0;
    data_iter_start(t->iter, epoch);
    while (isfinite(sum) && !interrupted() && data_iter_next(t->iter, &X, &y)) {
        if (X->shape[0] < t->job->base_batch * t->job->times) break;
        sum += make_update(t, X, y, r);
        images += X->shape[0];
    }
    r->loss = sum / (double)images;
}

RuleResult run_rule_job(const RuleJob *job, Device *device, const Dataset *train,
                        const Dataset *test) {
    RuleResult r = {.accuracy = 1.0 / FASHION_MNIST_CLASSES};
    Dataset images = *train;
    CHECK(job->images <= train->count && job->images >= job->base_batch * job->times,
          "a job's images fill a minibatch, and are there");
    images.count = job->images;
    RuleTraining t = open_training(job, device, &images);
    for (int epoch = 0; epoch < job->epochs && isfinite(r.loss); epoch++)
        train_rule_epoch(&t, epoch, &r);
    DataIter *test_iter = data_iter_new(test, 100, false, 0);
    if (isfinite(r.loss)) r.accuracy = evaluate_accuracy_gpus(&t.dp, test_iter);
    data_iter_free(test_iter);
    synchronize(device);
    if (t.adam) adam_free(t.adam);
    data_iter_free(t.iter);
    module_free(t.net);
    return r;
}

// What a rank has not done is zeros, so a sum over the ranks is what each of them has done.
void deal_rule_jobs(const RuleJob jobs[], RuleResult results[], int n, const Dataset *train,
                    const Dataset *test) {
    memset(results, 0, sizeof *results * (size_t)n);
    for (int j = dist_get_rank(); j < n; j += dist_get_world_size())
        results[j] = run_rule_job(&jobs[j], dist_device(), train, test);
    dist_note("the results of the rules");
    dist_sum(NULL, (double *)results, n * (int)(sizeof *results / sizeof(double)));
}
