// lr_rules.c: more ranks, a larger batch: what becomes of the learning rate?
//
// Each rank keeps its b images, so k ranks have a batch of k b. An epoch then has 1/k of the
// updates. If each of them is no longer than before, less is learned in an epoch, and all that the
// ranks have won is lost again. So the learning rate is made larger. By how much?
//
// - **None.** It stays as it is.
// - **Square root.** The text: one GPU has batches of 100 and lr 0.001, four have 400 and 0.002.
//   Batch x4, lr x2. The reason given for it is noise: the mean of k times as many images varies
//   $1/\sqrt{k}$ as much, so with $\sqrt{k}$ times the learning rate a step varies as it did
//   [@krizhevsky2014; @hoffer2017].
// - **Linear.** Batch x4, lr x4. One step with k b images and k lr goes where k steps with b images
//   and lr would have gone, if the gradients did not change on the way. It was found to
//   work in practice [@krizhevsky2014; @goyal2017].
// - **Linear, with warm-up.** "If the gradients did not change": at the start of a training they
//   change fast. So Goyal and others [@goyal2017] begin with the base learning rate and raise it
//   with each update, until after 5 epochs (of 90) it is k times as large. Horovod's example for
//   ImageNet does just that. They trained ResNet-50 with batches of up to 8192 and lost no
//   accuracy.
//
// All that is about gradient descent. (The text's example has the square root and Adam. For Adam it
// is the rule that theory gives [@malladi2022].)
#include "lr_rules.h"

#include "common/base/error.h"
#include "common/comm/process_group.h"
#include "common/program/interrupt.h"
#include "common/tensor/adam.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "accumulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const lr_rule_names[NUM_LR_RULES] = {"none", "square root", "linear",
                                                 "linear with warm-up"};
const char *const rule_optimizer_names[NUM_RULE_OPTIMIZERS] = {"gradient descent", "Adam"};
const char *const rule_network_titles[NUM_RULE_NETWORKS] = {"LeNet", "narrow ResNet-18",
                                                            "ResNet-18"};

double rule_lr(LrRule rule, double base_lr, double times, long step, long warm_up_steps) {
    switch (rule) {
    case RULE_SQRT:
        return base_lr * sqrt(times);
    case RULE_LINEAR:
        return base_lr * times;
    case RULE_WARM_UP:
        if (step >= warm_up_steps) return base_lr * times;
        return base_lr * (1 + (times - 1) * (double)step / (double)warm_up_steps);
    default:
        return base_lr;
    }
}

// ## The trainings
//
// Small, so that all of them together take a minute or two of one core. Few images in a base batch
// mean many updates for the time. The base learning rate is one that is good with the base batch,
// and a small one of those: with LeNet and the seeds 0, 1 and 2, rates from 0.025 to 0.2 have mean
// accuracies there that are closer to each other than a rate's seeds are. That matters for what
// comes out. From a base rate of 0.1, four times the batch does best without any rule, and the
// linear rule is the worst of the three: a rate that is nearly too large already cannot be made
// larger. A rule carries a rate over to another batch, it does not find one.
//
// The start is larger than the book's $N(0, 0.01^2)$: with that, LeNet would spend all of these
// updates on its plateau (chapter 4). And ResNet-18 is chapter 5's narrow one: of the real one an
// image takes 20 ms and more of a core in training, of the narrow one about 1 ms.
// The real one is for `--full`, with the sizes of chapter 5's shorter version and one seed: 9
// trainings of 10240 images, each evaluated on all test images, so about an hour of a core.

typedef struct RuleSetting {
    int base_batch, images, epochs, most_seeds;
    double start_times, base_lr[NUM_RULE_OPTIMIZERS];
} RuleSetting;

static const RuleSetting settings[NUM_RULE_NETWORKS] = {
    [RULES_LENET] = {8, 2048, 2, MOST_JOB_SEEDS, 10, {0.025, 0.001}},
    [RULES_NARROW] = {8, 1024, 1, MOST_JOB_SEEDS, 5, {0.0125, 0.001}},
    [RULES_RESNET18] = {16, 2048, 5, 1, 1, {0.025, 0.001}},
};

static RuleJob job_of(RuleNetwork network, RuleOptimizer optimizer, uint64_t seed) {
    const RuleSetting *s = &settings[network];
    return (RuleJob){.network = network,
                     .optimizer = optimizer,
                     .times = 1,
                     .base_batch = s->base_batch,
                     .base_lr = s->base_lr[optimizer],
                     .images = s->images,
                     .epochs = s->epochs,
                     .start_times = s->start_times,
                     .seed = seed};
}

int rule_jobs(RuleOptimizer optimizer, bool full, uint64_t first_seed, int seeds,
              RuleJob jobs[MOST_RULE_JOBS]) {
    const RuleNetwork chosen[] = {RULES_LENET, full ? RULES_RESNET18 : RULES_NARROW};
    int n = 0;
    for (int c = 0; c < 2; c++)
        for (int s = 0; s < seeds && s < settings[chosen[c]].most_seeds; s++) {
            RuleJob job = job_of(chosen[c], optimizer, first_seed + (uint64_t)s);
            jobs[n++] = job;
            for (job.times = 4; job.times <= 16; job.times *= 4)
                for (job.rule = RULE_NONE; job.rule < NUM_LR_RULES; job.rule++) jobs[n++] = job;
        }
    return n;
}

int rule_images(const RuleJob jobs[], int n) {
    int most = 0;
    for (int j = 0; j < n; j++)
        if (jobs[j].images > most) most = jobs[j].images;
    return most;
}

// ## One of them
//
// The large batch is reached by accumulation, in parts of the base batch: so it is what `times`
// ranks compute, to the bit, and batch norm sees a base batch at a time, as on ranks. (The running
// statistics are those that one rank would have had of all parts: see accumulate.c.)

typedef struct RuleTraining {
    const RuleJob *job;
    Device *device;
    Module *net;
    DataParallel dp; // on this device alone, to be evaluated
    Accumulator accumulator;
    Adam *adam; // NULL: plain gradient descent
    DataIter *iter;
    long warm_up_steps;
} RuleTraining;

static Module *make_network(RuleNetwork network) {
    if (network == RULES_NARROW) return narrow_resnet18(FASHION_MNIST_CLASSES);
    return networks[network == RULES_LENET ? 0 : 1].make(FASHION_MNIST_CLASSES);
}

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
    int n = 0;
    for (int p = 0; p < all.n; p++)
        if (all.list[p]->trained) params[n++] = parameter_data(all.list[p], device);
    Adam *adam = adam_new(params, n, (AdamOptions){0});
    free(params);
    return adam;
}

// Goyal's 5 of 90 epochs are an eighteenth of the training, which of 8 updates is none: here the
// warm-up is a quarter of it.
static long warm_up_of(const RuleJob *job) {
    return (long)job->epochs * (job->images / (job->base_batch * job->times)) / 4;
}

static void open_training(RuleTraining *t, const RuleJob *job, Device *device,
                          const Dataset *images) {
    *t = (RuleTraining){.job = job, .device = device, .warm_up_steps = warm_up_of(job)};
    t->net = make_network(job->network);
    initialize(t->net, job->seed);
    enlarge_start(t->net, (float)job->start_times);
    t->dp = data_parallel(t->net, &device, 1, BN_LOCAL);
    device_set_threads(device, 1);
    t->accumulator = accumulator_new(t->net, device, PARTS_APART);
    if (job->optimizer == RULES_ADAM) t->adam = adam_of(t->net, device);
    t->iter = data_iter_new(images, job->base_batch * job->times, true, job->seed);
}

static void close_training(RuleTraining *t) {
    synchronize(t->device);
    accumulator_free(&t->accumulator);
    if (t->adam) adam_free(t->adam);
    data_iter_free(t->iter);
    module_free(t->net);
}

// Returns the loss summed over the rows.
static double make_update(RuleTraining *t, const Tensor *X, const Tensor *y, RuleResult *r) {
    const RuleJob *job = t->job;
    double loss,
        lr = rule_lr(job->rule, job->base_lr, job->times, (long)r->updates, t->warm_up_steps);
    accumulate_batch(&t->accumulator, X, y, job->times);
    int rows = accumulate_end(&t->accumulator, &loss);
    if (t->adam)
        adam_step(t->adam, (float)lr, rows);
    else
        sgd_step(t->net, t->device, (float)lr, rows);
    r->updates++;
    r->last_lr = lr;
    r->lr_sum += lr;
    return loss;
}

// A loss that is no number is a result, too. Images that do not fill a batch at the end of an epoch
// are left out.
static void train_rule_epoch(RuleTraining *t, int epoch, RuleResult *r) {
    Tensor *X, *y;
    double sum = 0;
    long images = 0;
    data_iter_start(t->iter, epoch);
    while (!r->diverged && !interrupted() && data_iter_next(t->iter, &X, &y)) {
        if (X->shape[0] < t->job->base_batch * t->job->times) break;
        sum += make_update(t, X, y, r);
        images += X->shape[0];
        r->diverged = !isfinite(sum);
    }
    r->loss = sum / (double)images;
}

RuleResult run_rule_job(const RuleJob *job, Device *device, const Dataset *train,
                        const Dataset *test) {
    RuleResult r = {0};
    RuleTraining t;
    Dataset images = *train;
    CHECK(job->images <= train->count && job->images >= job->base_batch * job->times,
          "a job's images fill a batch, and are there");
    images.count = job->images;
    open_training(&t, job, device, &images);
    for (int epoch = 0; epoch < job->epochs && !r.diverged; epoch++)
        train_rule_epoch(&t, epoch, &r);
    DataIter *test_iter = data_iter_new(test, 100, false, 0);
    r.accuracy =
        r.diverged ? 1.0 / FASHION_MNIST_CLASSES : evaluate_accuracy_gpus(&t.dp, test_iter);
    data_iter_free(test_iter);
    close_training(&t);
    return r;
}

// ## Many of them
//
// Nobody waits for anybody but in the end: what a rank has not done is zeros, so a sum of all is
// what each has done.

void deal_rule_jobs(const RuleJob jobs[], RuleResult results[], int n, const Dataset *train,
                    const Dataset *test) {
    memset(results, 0, sizeof *results * (size_t)n);
    for (int j = dist_get_rank(); j < n; j += dist_get_world_size())
        results[j] = run_rule_job(&jobs[j], dist_device(0), train, test);
    dist_note("the results of the rules");
    dist_sum(NULL, (double *)results, n * RULE_RESULT_DOUBLES);
}
