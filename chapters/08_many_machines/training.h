// training.h: a whole training on all ranks: epochs, exact accuracies, checkpoints.
#pragma once

#include "common/data/fashion_mnist.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"
#include "chapters/06_data_parallel_and_ddp/networks.h"
#include "lr_rules.h"
#include "step.h"

typedef struct RankLesson {
    const Dataset *train_data, *test_data;
    int rows;   // of each rank in a step
    int epochs; // in all
    long steps; // stop after so many, -1: no limit
    float lr;   // of one rank; with many, it becomes larger by the linear rule (lr_rules.h)
    bool shuffle;
    uint64_t seed;
    RankNetOptions net;
    const char *checkpoint, *resume; // file names, rank 0's; NULL: none
    const char *settings;            // what a training that is resumed must have in common with it
    void (*before_step)(long step, Tensor *X); // for --plant; NULL: nothing happens
    bool quiet;
} RankLesson;

typedef struct RankResult {
    int epochs; // done
    long steps; // of these; epochs before a resume count as on this number of ranks
    double train_loss, test_acc; // of the last epoch
    uint32_t checksum;           // of the parameters
    bool stopped;                // in the middle of an epoch, because somebody asked for it
    DistTraffic traffic;         // of this rank's steps
} RankResult;

// The images of this rank: those that chapter 6's sampler deals out to it.
typedef struct RankData {
    const Dataset *data;
    Loader loader;
    int rows;  // of each rank in a step, at most
    long step; // of this epoch
} RankData;
long steps_of_epoch(const Dataset *data, int rows, int ranks);

// By all ranks. Rank 0 prints and writes. die()s if a loss is not finite or a checkpoint does not
// fit.
RankResult train_on_ranks(const RankLesson *lesson);
float lr_of_all(const RankLesson *lesson); // the learning rate that all ranks use
long last_step(const RankLesson *lesson);  // how many there will be, also those before a resume

// behind/checkpoint.c, by all ranks: rank 0 reads and writes for all.
void checkpoint_keep(const RankLesson *l, const RankNet *net, const RankResult *r);
void checkpoint_resume(const RankLesson *l, RankNet *net, RankResult *r);
