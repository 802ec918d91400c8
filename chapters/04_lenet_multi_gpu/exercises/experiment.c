// experiment.c: see experiment.h.
#include "experiment.h"

#include "common/base/error.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"

#include <math.h>
#include <stdlib.h>

// ---- replicas ---------------------------------------------------------------------------------

void replicas_open_from(Replicas *r, int k, Tensor *const params[]) {
    r->k = k;
    for (int i = 0; i < k; i++) r->devices[i] = try_gpu(i);
    share_cores(r->devices, k);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, r->devices[i], r->params[i]);
    synchronize_all();
}

void replicas_open(Replicas *r, int k, uint64_t seed) {
    Tensor *params[LENET_PARAMS];
    lenet_init(params, seed);
    replicas_open_from(r, k, params);
    free_params(params, LENET_PARAMS);
}

void replicas_close(Replicas *r) {
    for (int i = 0; i < r->k; i++) free_params(r->params[i], LENET_PARAMS);
}

void replicas_scale(Replicas *r, float factor) {
    for (int i = 0; i < r->k; i++)
        for (int p = 0; p < LENET_PARAMS; p++) {
            Tensor *param = r->params[i][p];
            float *values = xmalloc(tensor_bytes(param));
            tensor_read(param, values);
            for (size_t j = 0; j < numel(param); j++) values[j] *= factor;
            tensor_write(param, values);
            free(values);
        }
}

size_t replica_numel(void) {
    static size_t n;
    if (n == 0) {
        Tensor *params[LENET_PARAMS];
        lenet_init(params, 0);
        for (int p = 0; p < LENET_PARAMS; p++) n += numel(params[p]);
        free_params(params, LENET_PARAMS);
    }
    return n;
}

float *replica_values(const Replicas *r, int i) {
    float *values = xmalloc(sizeof(float) * replica_numel()), *next = values;
    for (int p = 0; p < LENET_PARAMS; p++) {
        tensor_read(r->params[i][p], next);
        next += numel(r->params[i][p]);
    }
    return values;
}

double train_one_device(Replicas *one, const Dataset *data, int batch_size, float lr, int epochs,
                        uint64_t seed) {
    Tensor *X, *y, *losses[MAX_DEVICES];
    DataIter *iter = data_iter_new(data, batch_size, true, seed);
    double total = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        data_iter_start(iter, epoch);
        total = 0;
        while (data_iter_next(iter, &X, &y)) {
            train_batch(X, y, one->params, one->devices, 1, lr, losses);
            total += (double)item(losses[0]);
        }
    }
    data_iter_free(iter);
    return total / data->count;
}
