// training.c: see training.h.
#include "training.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/data/evaluate.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"
#include "behind/behind.h"

#include <math.h>
#include <stdio.h>

// ## The images of a rank

static void rank_data_open(RankData *d, const Dataset *data, int rows, bool shuffle,
                           uint64_t seed) {
    DistributedSampler sampler = {.k = dist_get_world_size(),
                                  .rank = dist_get_rank(),
                                  .mode = SAMPLER_EXACT,
                                  .shuffle = shuffle,
                                  .seed = seed};
    *d = (RankData){.data = data, .rows = rows, .loader = loader_new(data, sampler, rows)};
}

static void rank_data_close(RankData *d) {
    synchronize_all();
    loader_free(&d->loader);
}

static void rank_data_start(RankData *d, int epoch) {
    d->step = 0;
    loader_start(&d->loader, epoch);
}

// No rank has to be asked, because each knows how many images the others have.
static int rows_of_all(const RankData *d) {
    int ranks = dist_get_world_size();
    long rows = 0;
    for (int r = 0; r < ranks; r++) {
        long left = equal_range(d->data->count, ranks, r).count - d->step * d->rows;
        rows += left < 0 ? 0 : left < d->rows ? left : d->rows;
    }
    return (int)rows;
}

// The next step's images, on this rank's device, whose step has begun. Returns how many rows all
// ranks have together: 0 at the end of the epoch, on all ranks at once.
static int rank_data_next(RankData *d, Tensor **X, Tensor **y) {
    int rows = rows_of_all(d);
    if (rows == 0) return 0;
    synchronize(dist_device()); // the loader's memory is used anew
    begin_step(dist_device());
    loader_next(&d->loader, d->rows, dist_device(), X, y);
    d->step++;
    return rows;
}

long steps_of_epoch(const Dataset *data, int rows, int ranks) {
    return (equal_range(data->count, ranks, 0).count + rows - 1) / rows;
}

// ## An epoch

typedef struct Run {
    const RankLesson *lesson;
    RankNet *net;
    RankData train;
    long step, steps_of_epoch; // all steps so far, also those before a resume
    double loss, rows;         // of this epoch
    bool stopped;
} Run;

// As in Goyal et al., warm-up takes 5 epochs of 90.
static float lr_now(const Run *run) {
    const RankLesson *l = run->lesson;
    long warm_up = l->epochs * run->steps_of_epoch * 5 / 90;
    return (float)rule_lr(l->rule, (double)l->lr, dist_get_world_size(), run->step, warm_up);
}

// All ranks exchange their losses and whether they have been asked to stop. (If one stopped alone,
// the others would wait for it in the next sum.)
static void end_step(Run *run, const Tensor *loss, int rows) {
    double said[2] = {(double)item(loss), interrupted()};
    dist_note("after step %ld", run->step + 1);
    dist_sum(NULL, said, 2);
    run->step++;
    if (!isfinite(said[0]))
        die("start again with a smaller --lr", "the loss became %s at step %ld",
            isnan(said[0]) ? "nan" : "infinite", run->step);
    run->loss += said[0];
    run->rows += rows;
    run->stopped = said[1] > 0;
}

static bool may_go_on(const Run *run) {
    return !run->stopped && (run->lesson->steps < 0 || run->step < run->lesson->steps);
}

static void train_one_epoch(Run *run, int epoch) {
    Tensor *X, *y, *loss;
    int rows;
    run->loss = run->rows = 0;
    rank_data_start(&run->train, epoch);
    while (may_go_on(run) && (rows = rank_data_next(&run->train, &X, &y)) > 0) {
        dist_note("step %ld", run->step + 1);
        go_wrong(&run->lesson->fault, run->step + 1, X); // only if --plant asks for it
        rank_net_step(run->net, X, y, lr_now(run), rows, &loss);
        end_step(run, loss, rows);
    }
    broadcast_buffers(run->net);
}

// Each rank counts for its own images, so each test image is counted once.
static double accuracy(const Run *run) {
    Tensor *X, *y, *correct = tensor_new(dist_device(), 1);
    RankData test;
    Module *net = run->net->net;
    rank_data_open(&test, run->lesson->test_data, 256, false, 0);
    set_training(net, false);
    set_grad_enabled(false);
    tensor_fill(correct, 0);
    rank_data_start(&test, 0);
    while (rank_data_next(&test, &X, &y) > 0) count_correct(correct, forward(net, X), y);
    double count = (double)item(correct);
    tensor_free(correct);
    set_grad_enabled(true);
    set_training(net, true);
    rank_data_close(&test);
    dist_note("evaluation");
    dist_sum(NULL, &count, 1);
    return count / run->lesson->test_data->count;
}

static long steps_in_all(const Run *run) {
    const RankLesson *l = run->lesson;
    long steps = l->epochs * run->steps_of_epoch;
    return l->steps >= 0 && l->steps < steps ? l->steps : steps;
}

static void begin_run(Run *run, Module *net, const RankLesson *l) {
    *run = (Run){.lesson = l};
    dist_note("the start of the training");
    if (l->net.hosts_first) hierarchical_begin();
    run->net = rank_net_new(net, l->net);
    rank_data_open(&run->train, l->train_data, l->rows, l->shuffle, l->seed);
    run->steps_of_epoch = steps_of_epoch(l->train_data, l->rows, dist_get_world_size());
    check_fault(&l->fault, steps_in_all(run));
    dist_reset_traffic();
}

static void end_run(Run *run) {
    rank_data_close(&run->train);
    rank_net_free(run->net);
    if (run->lesson->net.hosts_first) hierarchical_end();
}

// Trains an epoch and evaluates it. Returns whether it is complete.
static bool train_and_evaluate(Run *run, RankResult *r) {
    const RankLesson *l = run->lesson;
    double start = seconds_now();
    train_one_epoch(run, r->epochs);
    double seconds = seconds_now() - start;
    r->steps = run->step;
    r->traffic = dist_traffic();
    r->stopped = run->stopped;
    if (r->stopped) return false;
    r->train_loss = run->loss / run->rows;
    r->test_acc = accuracy(run);
    r->epochs++;
    if (!l->quiet)
        printf("  epoch %d: train loss %.3f, test acc %.4f, %.1f sec%s\n", r->epochs, r->train_loss,
               r->test_acc, seconds, divergence(r->train_loss));
    return run->train.step == run->steps_of_epoch; // --steps may end within an epoch
}

RankResult train_on_ranks(const RankLesson *l) {
    RankResult r = {.test_acc = NAN};
    Run run;
    Module *net = l->network->make(FASHION_MNIST_CLASSES);
    initialize(net, l->seed);
    begin_run(&run, net, l);
    if (l->resume) checkpoint_resume(l, steps_in_all(&run), run.net, &r);
    run.step = run.net->steps = r.steps;
    if (r.epochs == l->epochs) {
        say("  All %d epochs are done already. A larger --epochs continues.", r.epochs);
        r.test_acc = accuracy(&run);
    }
    while (r.epochs < l->epochs && may_go_on(&run))
        if (train_and_evaluate(&run, &r) && l->checkpoint)
            checkpoint_keep(l->checkpoint, l->settings, run.net, &r);
    r.checksum = rank_net_checksum(run.net);
    end_run(&run);
    module_free(net);
    return r;
}
