// network_file.c: see network_file.h.
#include "network_file.h"
#include "common/base/error.h"
#include "safetensors.h"

#include <stdlib.h>

void save_parameters(Module *net, Device *device, const char *path) {
    Parameters all = parameters_of(net);
    Tensor **tensors = xcalloc((size_t)all.n, sizeof *tensors);
    for (int i = 0; i < all.n; i++) tensors[i] = parameter_data(all.list[i], device);
    Counts counts = counts_of(net);
    safetensors_save_with(path, tensors, all.n,
                          &(SafetensorsExtras){.counts = counts.list, .num_counts = counts.n});
    free_counts(&counts);
    free(tensors);
}

void load_parameters(Module *net, const char *path) {
    Parameters all = parameters_of(net);
    Tensor **tensors = xcalloc((size_t)all.n, sizeof *tensors);
    for (int i = 0; i < all.n; i++) tensors[i] = all.list[i]->start;
    Counts counts = counts_of(net);
    safetensors_load_with(path, tensors, all.n,
                          &(SafetensorsExtras){.counts = counts.list, .num_counts = counts.n});
    set_counts(net, &counts);
    for (int i = 0; i < all.n; i++)
        for (int id = 0; id < NUM_DEVICE_IDS; id++)
            if (all.list[i]->on[id]) tensor_copy(all.list[i]->on[id], all.list[i]->start);
    free_counts(&counts);
    free(tensors);
}
