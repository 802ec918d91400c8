// book_steps.c: see book_steps.h.
#include "book_steps.h"

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/model/modelled_clock.h"
#include "common/tensor/step_graph.h"

enum { STEPS = 4 }; // the first finds memory, the second is recorded as a graph

typedef struct Minibatch {
    Tensor *X, *y;
} Minibatch;

static double lenet_seconds(Device *const devices[], int k, Minibatch batch) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    double begin = 0;
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, devices[i], device_params[i]);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_batch_as_graph(batch.X, batch.y, device_params, devices, k, 0.2f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
    return seconds;
}

static double resnet18_seconds(Device *const devices[], int k, Minibatch batch) {
    Tensor *losses[MAX_DEVICES];
    double begin = 0;
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, devices, k, BN_RANK0);
    for (int step = 0; step < STEPS; step++) {
        synchronize_all();
        begin = modelled_seconds();
        train_step(&dp, batch.X, batch.y, 0.1f, losses);
    }
    synchronize_all();
    double seconds = modelled_seconds() - begin;
    module_free(net);
    return seconds;
}

double book_step_seconds(const Machine *machine, const BookStep *step) {
    Device *devices[MAX_DEVICES];
    devices_close();
    modelled_clock_start(machine);
    modelled_clock_use_framework(step->framework);
    devices_init(BACKEND_MODEL, 0);
    allow_tf32(step->tf32);
    choose_graph(step->graph ? "on" : "off");
    open_devices(devices, step->devices);
    Minibatch batch = {tensor_new(host(), step->images, 1, 28, 28),
                       tensor_new(host(), step->images)};
    tensor_fill(batch.X, 0);
    tensor_fill(batch.y, 0);
    double seconds = step->resnet18 ? resnet18_seconds(devices, step->devices, batch)
                                    : lenet_seconds(devices, step->devices, batch);
    tensor_free(batch.X);
    tensor_free(batch.y);
    devices_close();
    modelled_clock_start(NULL);
    allow_tf32(false);
    choose_graph("on");
    return seconds;
}
