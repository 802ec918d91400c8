// book_epochs.c: see book_epochs.h.
#include "book_epochs.h"

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/modelled_clock.h"

#include <math.h>

enum { TRAINING_IMAGES = 60000, STEPS = 3 };

static Tensor *no_images(int n) {
    Tensor *X = tensor_new(host(), n, 1, 28, 28);
    tensor_fill(X, 0);
    return X;
}

static Tensor *no_labels(int n) {
    Tensor *y = tensor_new(host(), n);
    tensor_fill(y, 0);
    return y;
}

double train_lenet(Device *const devices[], int k, Tensor *X, Tensor *y) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    double begin = 0;
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_batch(X, y, device_params, devices, k, 0.2f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    return seconds;
}

double train_resnet18(Device *const devices[], int k, Tensor *X, Tensor *y) {
    Tensor *losses[MAX_DEVICES];
    double begin = 0;
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, devices, k, BN_RANK0);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_step(&dp, X, y, 0.1f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    module_free(net);
    return seconds;
}

double book_epoch_seconds(const Machine *machine, BookTraining *training, int k, int batch_size) {
    Device *devices[MAX_DEVICES];
    devices_close();
    modelled_clock_start(machine);
    modelled_clock_use_framework(true);
    devices_init(BACKEND_MODEL, 0);
    open_devices(devices, k);
    Tensor *X = no_images(batch_size), *y = no_labels(batch_size);
    double steps = ceil((double)TRAINING_IMAGES / batch_size);
    double seconds = steps * training(devices, k, X, y);
    tensor_free(X);
    tensor_free(y);
    devices_close();
    modelled_clock_start(NULL);
    return seconds;
}
