// running_statistics.c: see running_statistics.h.
#include "running_statistics.h"
#include "data_parallel.h"

#include "common/base/error.h"

#include <string.h>

BatchNormMode batch_norm_mode(const char *name) {
    static const char *const names[] = {"local", "rank0", "averaged", "sync"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return (BatchNormMode)i;
    die("local, rank0, averaged or sync", "no such way to treat batch norm: '%s'", name);
}

static void broadcast_from_first(Tensor *const copies[], int k) {
    for (int i = 1; i < k; i++) tensor_copy(copies[i], copies[0]);
}

static void average(Tensor *const copies[], int k) {
    allreduce_in_buckets(copies, k);
    for (int i = 0; i < k; i++)
        launch(copies[i]->device, scale, .x = copies[i]->data, .factor = 1.0f / (float)k,
               .n = numel(copies[i]));
}

void share_statistics(DataParallel *dp) {
    Tensor *buffers[MAX_DEVICES] = {NULL};
    if (dp->k == 1 || dp->bn == BN_LOCAL || dp->bn == BN_SYNC) return;
    for (int i = 0; i < dp->k; i++) {
        begin_step(dp->devices[i]); // The allreduce needs room in the arena.
        buffers[i] = flat_parameters(dp->net, dp->devices[i]).buffers;
    }
    if (dp->bn == BN_RANK0)
        broadcast_from_first(buffers, dp->k);
    else
        average(buffers, dp->k);
}

// In a batch norm of C channels, each device sends 2 C + 1 floats forward and 2 C backward to every
// other device. The running mean has C elements.
uint64_t synchronising_bytes(const DataParallel *dp) {
    Parameters all = parameters_of(dp->net);
    uint64_t pairs = (uint64_t)(dp->k * (dp->k - 1)), floats = 0;
    if (dp->bn != BN_SYNC) return 0;
    for (int p = 0; p < all.n; p++)
        if (strstr(all.list[p]->name, "running_mean")) floats += 4 * numel(all.list[p]->start) + 1;
    return pairs * floats * sizeof(float);
}
