// book_steps.c: see book_steps.h.
#include "book_steps.h"

#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/04_lenet_multi_gpu/lenet.h"
#include "chapters/05_resnet18_concise/data_parallel.h"
#include "chapters/05_resnet18_concise/resnet18.h"
#include "common/program/modelled_run.h"
#include "common/tensor/step_graph.h"

typedef struct Minibatch {
    Tensor *X, *y;
} Minibatch;

static void lenet_steps(ModelledRun *run, Minibatch batch) {
    Tensor *params[LENET_PARAMS], *device_params[MAX_DEVICES][LENET_PARAMS], *losses[MAX_DEVICES];
    int k = run->k;
    lenet_init(params, 1);
    for (int i = 0; i < k; i++) get_params(params, LENET_PARAMS, run->devices[i], device_params[i]);
    while (modelled_run(run))
        train_batch_as_graph(batch.X, batch.y, device_params, run->devices, k, 0.2f, losses);
    for (int i = 0; i < k; i++) free_params(device_params[i], LENET_PARAMS);
    free_params(params, LENET_PARAMS);
}

static void resnet18_steps(ModelledRun *run, Minibatch batch) {
    Tensor *losses[MAX_DEVICES];
    Module *net = resnet18(10, 1);
    initialize(net, 0);
    DataParallel dp = data_parallel(net, run->devices, run->k, BN_RANK0);
    while (modelled_run(run)) train_step(&dp, batch.X, batch.y, 0.1f, losses);
    module_free(net);
}

double book_step_seconds(const Machine *machine, const BookStep *step) {
    // The first step finds memory, the second is recorded as a graph.
    ModelledRun run = {
        .machine = machine, .k = step->devices, .framework = step->framework, .warm_up = 2};
    devices_close(); // they are opened with TF32, or without it
    allow_tf32(step->tf32);
    choose_graph(step->graph ? "on" : "off");
    modelled_begin(&run);
    Minibatch batch = {tensor_new(host(), step->images, 1, 28, 28),
                       tensor_new(host(), step->images)};
    tensor_fill(batch.X, 0);
    tensor_fill(batch.y, 0);
    if (step->resnet18)
        resnet18_steps(&run, batch);
    else
        lenet_steps(&run, batch);
    tensor_free(batch.X);
    tensor_free(batch.y);
    modelled_end(&run);
    devices_close();
    allow_tf32(false);
    choose_graph("on");
    return run.seconds;
}
