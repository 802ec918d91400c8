// replicas.c: the same parameters on several devices, for exercises that train on them.
#include "replicas.h"
#include "common/base/error.h"
#include "common/model/modelled_clock.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"

#include <stdlib.h>

static void copy_params(Replicas *r, Tensor *const params[]) {
    for (int i = 0; i < r->k; i++) get_params(params, LENET_PARAMS, r->devices[i], r->params[i]);
    synchronize_all();
}

void replicas_open_modelled(Replicas *r, int k) {
    Tensor *params[LENET_PARAMS];
    r->k = k;
    for (int i = 0; i < k; i++) r->devices[i] = model_device(i);
    lenet_init(params, 0);
    copy_params(r, params);
    free_params(params, LENET_PARAMS);
}

void replicas_open(Replicas *r, int k, uint64_t seed) {
    Tensor *params[LENET_PARAMS];
    lenet_init(params, seed);
    r->k = k;
    open_devices(r->devices, k);
    copy_params(r, params);
    free_params(params, LENET_PARAMS);
}

void replicas_close(Replicas *r) {
    for (int i = 0; i < r->k; i++) free_params(r->params[i], LENET_PARAMS);
}

void replicas_scale(Replicas *r, float factor) {
    for (int i = 0; i < r->k; i++)
        for (int p = 0; p < LENET_PARAMS; p++) {
            Tensor *param = r->params[i][p];
            float *values = tensor_values(param);
            for (size_t j = 0; j < numel(param); j++) values[j] *= factor;
            tensor_write(param, values);
            free(values);
        }
}

double images_received(const Replicas *r, int i, const Dataset *data) {
    size_t image = sizeof(float) * (size_t)(data->rows * data->cols + 1); // and its label
    return (double)ledger_bytes(host(), r->devices[i]) / (double)image;
}
