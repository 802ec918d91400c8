// rank_data.h: the images of each rank: the sampler of chapter 6 that leaves none out and takes
// none twice, for all devices of this process.
#ifndef RANK_DATA_H
#define RANK_DATA_H

#include "common/comm/process_group.h"
#include "chapters/06_data_parallel_and_ddp/sampler.h"

typedef struct RankData {
    const Dataset *data;
    Loader loaders[MAX_LOCAL_DEVICES]; // of the devices of this process
    int rows;                          // of each device in a step, at most
    long step, devices;                // of this epoch; of all ranks
} RankData;

// `rows` images for each device in a step. For rank_data_close().
void rank_data_open(RankData *d, const Dataset *data, int rows, bool shuffle, uint64_t seed);
void rank_data_close(RankData *d);

void rank_data_start(RankData *d, int epoch);
// The next step's images, on the devices of this process, whose steps are begun. Returns how many
// rows all devices of all ranks have together: 0 at the end of the epoch, on all ranks at once.
int rank_data_next(RankData *d, Tensor *X[], Tensor *y[]);
// Steps of an epoch.
long rank_data_steps(const RankData *d);

#endif
