// rank_checkpoint.c: see rank_checkpoint.h.
//
// All ranks have the same parameters, so one of them can write for all. Which of them does not
// matter, but it must be one: two processes that write one file are an old way to lose both. The
// file is written beside its final place and renamed (file.h): a job that ends in the middle of it
// has the checkpoint before.
#include "rank_checkpoint.h"

#include "common/base/error.h"
#include "common/program/say.h"
#include "chapters/05_resnet18_concise/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Chapter 5's checkpoints are those of a DataParallel: that of this process.
static DataParallel replicas_of(const RankNet *net) {
    DataParallel dp = {.net = net->net, .k = dist_local_devices(), .bn = BN_RANK0};
    for (int i = 0; i < dp.k; i++) dp.devices[i] = dist_device(i);
    return dp;
}

// The first line of what chapter 5 keeps for its curves.
static char *history_of(const RankResult *r) {
    return xprintf("devices %d\ntrain_loss %.17g\ntest_acc %.17g\n", dist_num_devices(),
                   r->train_loss, r->test_acc);
}

void rank_checkpoint_save(const char *path, const char *settings, const RankNet *net,
                          const RankResult *r) {
    if (dist_get_rank() == 0) {
        Checkpoint checkpoint = {.epoch = r->epochs,
                                 .step = r->steps,
                                 .loss = xprintf("%.9g", r->train_loss),
                                 .settings = xstrdup(settings),
                                 .length = xstrdup("epochs"),
                                 .history = history_of(r),
                                 .start = FROM_SEED};
        DataParallel dp = replicas_of(net);
        Start start = start_of(net->net);
        checkpoint_save(path, &checkpoint, &start, &dp);
        free_counts(&start.counts);
        checkpoint_close(&checkpoint);
    }
    dist_note("the checkpoint of epoch %d", r->epochs);
    dist_barrier(NULL);
}

// ## Going on
//
// On as many ranks, what follows has the bits that it would have had. On another number of ranks
// the same images are dealt out to others, and sums have other orders: the training is the same,
// its last digits are not.

static void check_settings(const char *path, const Checkpoint *c, const char *settings) {
    if (strcmp(c->settings, settings) != 0)
        die("give the flags of that training", "%s: is of a training with %s; this one has %s",
            path, c->settings, settings);
}

static void say_what_changes(const Checkpoint *c) {
    int devices = 0;
    if (sscanf(c->history, "devices %d", &devices) != 1 || devices == dist_num_devices()) return;
    say("  The checkpoint is of %d devices, and here are %d. Each image is still taken once in an "
        "epoch, but a step has other images, and as many rows of each device: with another number "
        "of devices the minibatch has another size, and the learning rate the rule's other value. "
        "Sums are added in another order. So what follows is not to the bit what would have "
        "followed there.",
        devices, dist_num_devices());
}

static void read_by_rank_0(const char *path, const char *settings, RankNet *net, RankResult *r) {
    Checkpoint c = checkpoint_open(path);
    check_settings(path, &c, settings);
    DataParallel dp = replicas_of(net);
    checkpoint_load(path, &dp);
    say_what_changes(&c);
    r->epochs = c.epoch;
    r->steps = c.step;
    char *at = strstr(c.history, "train_loss ");
    if (!at || sscanf(at, "train_loss %lf test_acc %lf", &r->train_loss, &r->test_acc) != 2)
        die("the file is damaged: go on from another checkpoint", "%s: does not say its accuracy",
            path);
    checkpoint_close(&c);
}

void rank_checkpoint_load(const char *path, const char *settings, RankNet *net, RankResult *r) {
    double known[4] = {0};
    if (dist_get_rank() == 0) {
        read_by_rank_0(path, settings, net, r);
        memcpy(known, (double[]){r->epochs, (double)r->steps, r->train_loss, r->test_acc},
               sizeof known);
    }
    dist_note("the checkpoint that is read");
    dist_sum(NULL, known, 4); // the others have zeros
    *r = (RankResult){.epochs = (int)known[0],
                      .steps = (long)known[1],
                      .train_loss = known[2],
                      .test_acc = known[3]};
    rank_net_broadcast(net);
}
