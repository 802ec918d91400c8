// checkpoint.c: rank 0 reads and writes for all; see training.h.
//
// (Two processes that write one file may lose both.) The file is written beside its final place and
// then renamed (file.h), so a job that ends meanwhile still has the checkpoint before.
#include "chapters/08_many_machines/training.h"

#include "common/base/error.h"
#include "common/base/number.h"
#include "common/data/checkpoints.h"
#include "common/program/say.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

void checkpoint_keep(const RankLesson *l, const RankNet *net, const RankResult *r) {
    Device *device = dist_device();
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", dist_get_world_size());
    if (dist_get_rank() == 0)
        checkpoint_save(l->checkpoint, net->net, &device, 1, r->epochs, l->settings, ranks);
    dist_note("the checkpoint of epoch %d", r->epochs);
    dist_barrier(NULL);
}

// Returns how many epochs are done.
static int read_by_rank_0(const RankLesson *l, RankNet *net) {
    Device *device = dist_device();
    char *ranks;
    int now = dist_get_world_size();
    long most_epochs = last_step(l) / steps_of_epoch(l->train_data, l->rows, now), then;
    int epochs =
        checkpoint_load(l->resume, net->net, &device, 1, 1, l->settings, most_epochs, &ranks);
    if (!read_whole(ranks, 1, INT_MAX, &then))
        die("the file is damaged: go on from another checkpoint",
            "%s: the number of ranks is no whole number above 0: '%.40s'", l->resume, ranks);
    if (then != now)
        say("  The checkpoint is of %ld ranks, and here are %d: other minibatches, and so not to "
            "the bit what would have followed there.",
            then, now);
    free(ranks);
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
