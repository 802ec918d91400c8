// rank_checkpoint.h: a training on many ranks goes on after it was stopped. The checkpoints are
// those of common/data/checkpoints.h, and rank 0 alone writes them.
#ifndef RANK_CHECKPOINT_H
#define RANK_CHECKPOINT_H

#include "rank_data.h"
#include "rank_training.h"

// Rank 0 writes the file, whole or not at all; the others wait until it is there.
void rank_checkpoint_save(const char *path, const char *settings, const RankNet *net,
                          const RankResult *result);

// Rank 0 reads the file, which need not be on other hosts, and all get what is in it: parameters,
// buffers, and how far the training was. The number of ranks may be another one; rank 0 then says
// what that changes. die()s if the file is no checkpoint, or one of another training, or if this
// one ends before that, after `last` steps.
void rank_checkpoint_load(const RankLesson *lesson, const RankData *train, long last, RankNet *net,
                          RankResult *result);

#endif
