// training.c: see training.h.
#include "training.h"

#include "common/base/platform.h"
#include "common/base/error.h"
#include "common/data/evaluate.h"
#include "common/program/interrupt.h"
#include "common/program/say.h"
#include "common/tensor/autograd.h"

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

// ## A training

long last_step(const RankLesson *l) {
    long all = l->epochs * steps_of_epoch(l->train_data, l->rows, dist_get_world_size());
    return l->steps >= 0 && l->steps < all ? l->steps : all;
}

float lr_of_all(const RankLesson *l) {
    return (float)rule_lr(RULE_LINEAR, (double)l->lr, dist_get_world_size(), 0, 0);
}

// All ranks exchange their losses and whether they have been asked to stop. (If one stopped alone,
// the others would wait for it in the next sum.)
static double loss_of_all(const Tensor *loss, long step, bool *stopped) {
    double said[2] = {(double)item(loss), interrupted()};
    dist_note("after step %ld", step);
    dist_sum(NULL, said, 2);
    if (!isfinite(said[0]))
        die("start again with a smaller --lr", "the loss became %s at step %ld",
            isnan(said[0]) ? "nan" : "infinite", step);
    *stopped = said[1] > 0;
    return said[0];
}

// Each rank counts for its own images, so each test image is counted once.
static double accuracy(Module *net, const Dataset *test_data) {
    Tensor *X, *y, *correct = tensor_new(dist_device(), 1);
    RankData test;
    rank_data_open(&test, test_data, 256, false, 0);
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
    return count / test_data->count;
}

// The network starts with rank 0's parameters, or where the checkpoint ends.
static RankNet *begin(const RankLesson *l, RankResult *r) {
    Module *net = lenet_modules(FASHION_MNIST_CLASSES);
    initialize(net, l->seed);
    dist_note("the start of the training");
    if (l->net.hosts_first) hierarchical_begin();
    RankNet *n = rank_net_new(net, l->net);
    dist_reset_traffic();
    if (l->resume) checkpoint_resume(l, n, r);
    n->steps = r->steps;
    if (r->epochs == l->epochs) {
        say("  All %d epochs are done already. A larger --epochs continues.", r->epochs);
        r->test_acc = accuracy(net, l->test_data);
    }
    return n;
}

static void end(RankNet *n) {
    Module *net = n->net;
    if (n->options.hosts_first) hierarchical_end();
    rank_net_free(n);
    module_free(net);
}

// All ranks call this in each epoch. The result is the mean loss of the epoch's images.
static double train_epoch(const RankLesson *l, RankNet *n, RankData *train, int epoch,
                          RankResult *r) {
    Tensor *X, *y, *loss;
    double sum = 0;
    int rows, images = 0;
    rank_data_start(train, epoch);
    while (r->steps < last_step(l) && !r->stopped && (rows = rank_data_next(train, &X, &y)) > 0) {
        if (l->before_step) l->before_step(r->steps + 1, X); // only if --plant asks for it
        rank_net_step(n, X, y, lr_of_all(l), rows, &loss);
        sum += loss_of_all(loss, ++r->steps, &r->stopped);
        images += rows;
    }
    return sum / images;
}

RankResult train_on_ranks(const RankLesson *l) {
    RankResult r = {.test_acc = NAN};
    RankNet *n = begin(l, &r);
    RankData train;
    rank_data_open(&train, l->train_data, l->rows, l->shuffle, l->seed);
    for (int epoch = r.epochs; r.steps < last_step(l) && !r.stopped; epoch++) {
        double start = seconds_now(), mean_loss = train_epoch(l, n, &train, epoch, &r);
        broadcast_buffers(n);
        double seconds = seconds_now() - start;
        r.traffic = dist_traffic();
        if (r.stopped) break; // in the middle of an epoch
        r.epochs = epoch + 1;
        r.train_loss = mean_loss;
        r.test_acc = accuracy(n->net, l->test_data);
        if (!l->quiet)
            printf("  epoch %d: train loss %.3f, test acc %.4f, %.1f sec%s\n", r.epochs,
                   r.train_loss, r.test_acc, seconds, divergence(r.train_loss));
        bool is_whole = rows_of_all(&train) == 0; // --steps may end within an epoch
        if (l->checkpoint && is_whole) checkpoint_keep(l, n, &r);
    }
    r.checksum = rank_net_checksum(n);
    rank_data_close(&train);
    end(n);
    return r;
}
