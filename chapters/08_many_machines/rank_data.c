// rank_data.c: see rank_data.h.
#include "rank_data.h"

#include "common/base/range.h"
#include "common/tensor/autograd.h"

void rank_data_open(RankData *d, const Dataset *data, int rows, bool shuffle, uint64_t seed) {
    *d = (RankData){.data = data, .rows = rows, .devices = dist_num_devices()};
    for (int i = 0; i < dist_local_devices(); i++)
        d->loaders[i] =
            loader_new(data,
                       (DistributedSampler){.k = dist_num_devices(),
                                            .rank = dist_get_rank() * dist_local_devices() + i,
                                            .mode = SAMPLER_EXACT,
                                            .shuffle = shuffle,
                                            .seed = seed},
                       rows);
}

void rank_data_close(RankData *d) {
    synchronize_all();
    for (int i = 0; i < dist_local_devices(); i++) loader_free(&d->loaders[i]);
}

void rank_data_start(RankData *d, int epoch) {
    d->step = 0;
    for (int i = 0; i < dist_local_devices(); i++) loader_start(&d->loaders[i], epoch);
}

// Nobody has to be asked: everybody knows how many images each device has. (Those at the places g,
// g
// + k, ..: device g has one more than others if it comes before the rest of the division.)
static int rows_of_all(const RankData *d) {
    long rows = 0;
    for (int g = 0; g < d->devices; g++) {
        long left = equal_range(d->data->count, (int)d->devices, g).count - d->step * d->rows;
        rows += left < 0 ? 0 : left < d->rows ? left : d->rows;
    }
    return (int)rows;
}

int rank_data_next(RankData *d, Tensor *X[], Tensor *y[]) {
    int rows = rows_of_all(d);
    if (rows == 0) return 0;
    for (int i = 0; i < dist_local_devices(); i++) {
        synchronize(dist_device(i)); // the loader's memory is used anew
        begin_step(dist_device(i));
        loader_next(&d->loaders[i], d->rows, dist_device(i), &X[i], &y[i]);
    }
    d->step++;
    return rows;
}

long rank_data_steps(const RankData *d) {
    long most = equal_range(d->data->count, (int)d->devices, 0).count;
    return (most + d->rows - 1) / d->rows;
}
