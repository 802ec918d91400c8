// towers.c: variables on the CPU, a tower on each device.
#include "towers.h"

#include "common/base/error.h"
#include "common/tensor/functional.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"
#include "chapters/03_split_batch/split_batch.h"

#include <stdlib.h>
#include <string.h>

void combine_gradients(Device *device, GradAndVar *const tower_grads[], int num_towers,
                       int num_vars, GradAndVar final_grads[]) {
    for (int i = 0; i < num_vars; i++) {
        Tensor *sum = final_grads[i].grad;
        launch(device, fill, .x = sum->data, .value = 0, .n = numel(sum));
        for (int t = 0; t < num_towers; t++)
            launch(device, add, .y = sum->data, .x = tower_grads[t][i].grad->data, .n = numel(sum));
        final_grads[i].var = tower_grads[0][i].var;
    }
}

// The variables are in the host's own memory, even if the devices are GPUs. A CPU device that
// stands for the host's processor updates them.
Towers *towers_new(Device *const devices[], int k, uint64_t seed, Combine combine, bool adam) {
    Towers *t = xcalloc(1, sizeof *t);
    *t = (Towers){.k = k, .cpu = cpu_device(k), .combine = combine};
    t->towers = xcalloc((size_t)k, sizeof *t->towers);
    t->grads = xcalloc((size_t)k, sizeof *t->grads);
    lenet_init(t->vars, seed);
    for (int p = 0; p < LENET_PARAMS; p++) attach_grad(t->vars[p]);
    for (int i = 0; i < k; i++) {
        t->towers[i] = worker_new(devices[i], seed);
        for (int p = 0; p < LENET_PARAMS; p++) t->grads[i][p] = tensor_zeros_like(t->vars[p]);
    }
    if (adam) t->adam = adam_new(t->vars, LENET_PARAMS, (AdamOptions){0});
    return t;
}

void towers_free(Towers *t) {
    synchronize_all();
    if (t->adam) adam_free(t->adam);
    for (int i = 0; i < t->k; i++) {
        worker_free(&t->towers[i]);
        free_params(t->grads[i], LENET_PARAMS);
    }
    free_params(t->vars, LENET_PARAMS);
    free(t->towers);
    free(t->grads);
    free(t);
}

static void send_variables(Towers *t) {
    for (int i = 0; i < t->k; i++)
        for (int p = 0; p < LENET_PARAMS; p++) tensor_copy(t->towers[i].list[p], t->vars[p]);
}

// The gradient of the mean over the tower's rows: tf.losses.softmax_cross_entropy.
static void tower_gradients(Worker *tower, Tensor *X, Tensor *y) {
    worker_gradients(tower, X, y);
    if (X->shape[0] > 0)
        launch(tower->device, scale, .x = tower->grads->data, .factor = 1 / (float)X->shape[0],
               .n = numel(tower->grads));
}

static void fetch_gradients(Towers *t) {
    for (int i = 0; i < t->k; i++) {
        for (int p = 0; p < LENET_PARAMS; p++)
            tensor_copy(t->grads[i][p], t->towers[i].list[p]->grad);
        tensor_fill(t->towers[i].grads, 0);
    }
    synchronize_all(); // the CPU has them
}

// A sum of k means is applied as it is, or divided by k.
static void apply_gradients(Towers *t, float lr) {
    int divide_by = t->combine == TOWERS_MEAN ? t->k : 1;
    if (t->adam) adam_step_on(t->adam, t->cpu, lr, divide_by);
    for (int p = 0; !t->adam && p < LENET_PARAMS; p++)
        launch(t->cpu, sgd, .param = t->vars[p]->data, .grad = t->vars[p]->grad->data, .lr = lr,
               .batch_size = divide_by, .n = numel(t->vars[p]));
    synchronize(t->cpu);
}

void towers_step(Towers *t, const Tensor *X, const Tensor *y, float lr) {
    Tensor *tower_inputs[MAX_COMPUTING], *tower_labels[MAX_COMPUTING];
    Device *devices[MAX_COMPUTING];
    GradAndVar lists[MAX_COMPUTING][LENET_PARAMS], *tower_grads[MAX_COMPUTING];
    GradAndVar final_grads[LENET_PARAMS];
    for (int i = 0; i < t->k; i++) {
        devices[i] = t->towers[i].device;
        begin_step(devices[i]);
    }
    split_batch(X, y, devices, t->k, tower_inputs, tower_labels); // tf.split
    send_variables(t);
    for (int i = 0; i < t->k; i++) tower_gradients(&t->towers[i], tower_inputs[i], tower_labels[i]);
    fetch_gradients(t);
    for (int i = 0; i < t->k; i++) {
        tower_grads[i] = lists[i];
        for (int p = 0; p < LENET_PARAMS; p++)
            lists[i][p] = (GradAndVar){t->grads[i][p], t->vars[p]};
    }
    for (int p = 0; p < LENET_PARAMS; p++) final_grads[p].grad = t->vars[p]->grad;
    combine_gradients(t->cpu, tower_grads, t->k, LENET_PARAMS, final_grads);
    apply_gradients(t, lr);
}
