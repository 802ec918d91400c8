// checkpoint.c: rank 0 reads and writes for all; see behind.h.
//
// All ranks have the same parameters, so one of them can write for all. It must be one, because two
// processes that write one file are an old way to lose both. The file is written beside its final
// place and then renamed (file.h), so a job that ends meanwhile still has the checkpoint before.
#include "behind.h"

#include "common/base/error.h"
#include "common/data/checkpoints.h"
#include "common/program/say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void checkpoint_keep(const char *path, const char *settings, const RankNet *net,
                     const RankResult *r) {
    Device *device = dist_device();
    if (dist_get_rank() == 0) {
        Checkpoint checkpoint = {.epoch = r->epochs,
                                 .step = r->steps,
                                 .loss = xprintf("%.9g", r->train_loss),
                                 .settings = xstrdup(settings),
                                 .length = xstrdup("epochs"),
                                 .history =
                                     xprintf("devices %d\ntrain_loss %.17g\ntest_acc %.17g\n",
                                             dist_get_world_size(), r->train_loss, r->test_acc),
                                 .start = FROM_SEED};
        checkpoint_save(path, &checkpoint, net->net, &device, 1);
        checkpoint_close(&checkpoint);
    }
    dist_note("the checkpoint of epoch %d", r->epochs);
    dist_barrier(NULL);
}

// Returns how many ranks it is of.
static int read_history(const char *path, const Checkpoint *c, RankResult *r) {
    int ranks, end = 0;
    if (sscanf(c->history, "devices %9d train_loss %lf test_acc %lf %n", &ranks, &r->train_loss,
               &r->test_acc, &end) != 3 ||
        c->history[end] || ranks < 1 || !isfinite(r->train_loss) || !isfinite(r->test_acc))
        die("the file is damaged, or it is another chapter's checkpoint: resume another one",
            "%s: does not say its devices, its loss and its accuracy", path);
    return ranks;
}

static void read_by_rank_0(const RankLesson *l, long last, RankNet *net, RankResult *r) {
    Checkpoint c = checkpoint_open(l->resume);
    Device *device = dist_device();
    int ranks = read_history(l->resume, &c, r), now = dist_get_world_size();
    checkpoint_check(l->resume, &c, l->settings, c.length,
                     steps_of_epoch(l->train_data, l->rows, ranks),
                     steps_of_epoch(l->train_data, l->rows, now), last);
    checkpoint_load(l->resume, net->net, &device, 1, 1);
    if (ranks != now)
        say("  The checkpoint is of %d ranks, and here are %d. The minibatch and with it the "
            "learning rate change, and sums are added in another order. So what follows is not to "
            "the bit what would have followed there.",
            ranks, now);
    r->epochs = c.epoch;
    checkpoint_close(&c);
}

void checkpoint_resume(const RankLesson *l, long last, RankNet *net, RankResult *r) {
    double known[3] = {0};
    if (dist_get_rank() == 0) {
        read_by_rank_0(l, last, net, r);
        memcpy(known, (double[]){r->epochs, r->train_loss, r->test_acc}, sizeof known);
    }
    dist_note("the checkpoint that is read");
    dist_sum(NULL, known, 3); // the others have zeros
    int epochs = (int)known[0];
    *r = (RankResult){.epochs = epochs,
                      .steps =
                          epochs * steps_of_epoch(l->train_data, l->rows, dist_get_world_size()),
                      .train_loss = known[1],
                      .test_acc = known[2]};
    broadcast_from_rank_0(net);
}
