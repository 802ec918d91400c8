// rank_checkpoint.c: rank 0 reads and writes for all.
//
// All ranks have the same parameters, so one of them can write for all. Which of them does not
// matter, but it must be one: two processes that write one file are an old way to lose both. The
// file is written beside its final place and renamed (file.h): a job that ends in the middle of it
// has the checkpoint before.
#include "rank_checkpoint.h"

#include "common/base/error.h"
#include "common/data/checkpoints.h"
#include "common/program/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        checkpoint_save(path, &checkpoint, net->net, dist_devices(), 1);
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

static void say_what_changes(int devices) {
    if (devices == dist_num_devices()) return;
    say("  The checkpoint is of %d devices, and here are %d. Each image is still taken once in an "
        "epoch, but a step has other images, and as many rows of each device: with another number "
        "of devices the minibatch has another size, and the learning rate the rule's other value. "
        "Sums are added in another order. So what follows is not to the bit what would have "
        "followed there.",
        devices, dist_num_devices());
}

// Returns how many devices it is of.
static int read_history(const char *path, const Checkpoint *c, RankResult *r) {
    int devices, end = 0;
    if (sscanf(c->history, "devices %9d train_loss %lf test_acc %lf %n", &devices, &r->train_loss,
               &r->test_acc, &end) != 3 ||
        c->history[end] || devices < 1 || !isfinite(r->train_loss) || !isfinite(r->test_acc))
        die("the file is damaged, or the checkpoint of another chapter: go on from another one",
            "%s: does not say its devices, its loss and its accuracy", path);
    return devices;
}

static void read_by_rank_0(const RankLesson *l, const RankData *train, long last, RankNet *net,
                           RankResult *r) {
    Checkpoint c = checkpoint_open(l->resume);
    RankData then = *train;
    then.devices = read_history(l->resume, &c, r);
    checkpoint_check(l->resume, &c, l->settings, c.length, rank_data_steps(&then),
                     rank_data_steps(train), last);
    checkpoint_load(l->resume, net->net, dist_devices(), dist_local_devices(), 1);
    say_what_changes(then.devices);
    r->epochs = c.epoch;
    checkpoint_close(&c);
}

void rank_checkpoint_load(const RankLesson *l, const RankData *train, long last, RankNet *net,
                          RankResult *r) {
    double known[3] = {0};
    if (dist_get_rank() == 0) {
        read_by_rank_0(l, train, last, net, r);
        memcpy(known, (double[]){r->epochs, r->train_loss, r->test_acc}, sizeof known);
    }
    dist_note("the checkpoint that is read");
    dist_sum(NULL, known, 3); // the others have zeros
    *r = (RankResult){.epochs = (int)known[0],
                      .steps = (long)known[0] * rank_data_steps(train),
                      .train_loss = known[1],
                      .test_acc = known[2]};
    rank_net_broadcast(net);
}
