// zero_run.h: a training by one of chapter 9's stages, on the images of formula.h.
#pragma once

#include "cases.h"

#include "chapters/02_get_params_and_allreduce/allreduce.h"
#include "chapters/03_split_batch/split_batch.h"
#include "chapters/09_what_each_device_keeps/zero.h"
#include "formula.h"

static const float lr = 1e-3f;

__attribute__((constructor)) static void begin_sharded(void) { choose_allreduce("sharded"); }

// A ResNet of few parameters.
static inline Module *narrow_resnet(int num_classes) {
    return Sequential(Conv2d(1, 8, .kernel_size = 3, .padding = 1), BatchNorm2d(8), ReLU(),
                      Residual(8, 8), Residual(8, 16, .use_1x1conv = true, .strides = 2),
                      AdaptiveAvgPool2d(1, 1), Flatten(), Linear(16, num_classes));
}

// Begins a step of each device, with so many images. (They are kept.)
static inline void give_rows(int first, int rows, Device *const devices[], int k, Tensor *X[],
                             Tensor *y[]) {
    Tensor *all_X, *all_y;
    formula_batch(first + rows, &all_X, &all_y);
    Tensor own_X = rows_of(keep(all_X), (Range){first, rows});
    Tensor own_y = rows_of(keep(all_y), (Range){first, rows});
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(&own_X, &own_y, devices, k, X, y);
}

typedef struct Run {
    int k;
    Device *devices[8];
    Module *net;
    Zero *z;
    Tensor *X[8], *y[8], *losses[8]; // of a step
} Run;

// On devices of the kind under test; a child (NULL) has CPU devices.
static inline Run begin(void **state, Module *make(int num_classes), Stage stage, int k) {
    Run r = {.k = k};
    if (!state) devices_init(BACKEND_CPU, 1); // (or a line could say that there is no GPU)
    if (state)
        devices_under_test(state, k, r.devices);
    else
        open_devices(r.devices, k);
    r.net = make(10);
    fill_network(r.net);
    r.z = zero_new(r.net, r.devices, k, stage, (AdamOptions){0});
    return r;
}

static inline void take_step(Run *r, int first, int rows) {
    give_rows(first, rows, r->devices, r->k, r->X, r->y);
    zero_step(r->z, r->X, r->y, lr, rows, r->losses);
}

static inline void end(Run *r) {
    zero_free(r->z);
    module_free(r->net);
    devices_close();
}
