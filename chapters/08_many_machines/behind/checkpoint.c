// checkpoint.c: rank 0 reads and writes for all; see training.h.
//
// (Two processes that write one file may lose both.) The file is written beside its final place and
// then renamed (file.h), so a job that ends meanwhile still has the checkpoint before.
#include "chapters/08_many_machines/training.h"

#include "common/base/error.h"
#include "common/data/checkpoints.h"
#include "common/program/say.h"

#include <stdio.h>

void checkpoint_keep(const RankLesson *l, const RankNet *net, const RankResult *r) {
    Device *device = dist_device();
    if (dist_get_rank() == 0) {
        Checkpoint checkpoint = {.epoch = r->epochs,
                                 .step = r->steps,
                                 .settings = xstrdup(l->settings),
                                 .length = xstrdup("epochs"),
                                 .history = xprintf("ranks %d\n", dist_get_world_size())};
        checkpoint_save(l->checkpoint, &checkpoint, net->net, &device, 1);
        checkpoint_close(&checkpoint);
    }
    dist_note("the checkpoint of epoch %d", r->epochs);
    dist_barrier(NULL);
}

// Returns how many epochs are done.
static int read_by_rank_0(const RankLesson *l, RankNet *net) {
    Checkpoint c = checkpoint_open(l->resume);
    Device *device = dist_device();
    int ranks, end = 0, now = dist_get_world_size(), epochs = c.epoch;
    if (sscanf(c.history, "ranks %9d %n", &ranks, &end) != 1 || c.history[end] || ranks < 1)
        die("the file is damaged, or it is another chapter's checkpoint: resume another one",
            "%s: does not say its number of ranks", l->resume);
    checkpoint_check(l->resume, &c, l->settings, c.length,
                     steps_of_epoch(l->train_data, l->rows, ranks),
                     steps_of_epoch(l->train_data, l->rows, now), last_step(l));
    checkpoint_load(l->resume, net->net, &device, 1, 1);
    if (ranks != now)
        say("  The checkpoint is of %d ranks, and here are %d: other minibatches, and so not to "
            "the bit what would have followed there.",
            ranks, now);
    checkpoint_close(&c);
    return epochs;
}

void checkpoint_resume(const RankLesson *l, RankNet *net, RankResult *r) {
    double epochs = 0; // the others have zeros
    if (dist_get_rank() == 0) epochs = read_by_rank_0(l, net);
    dist_note("the checkpoint that is read");
    dist_sum(NULL, &epochs, 1);
    r->epochs = (int)epochs;
    r->steps = r->epochs * steps_of_epoch(l->train_data, l->rows, dist_get_world_size());
    broadcast_from_rank_0(net);
}
