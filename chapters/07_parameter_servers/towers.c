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

// The variables are in the host's memory, even if the devices are GPUs. A CPU device that stands
// for the host's processor updates them.
Towers *towers_new(Device *const devices[], int k, uint64_t seed, Combine combine, bool adam) {
    Towers *t = xcalloc(1, sizeof *t);
    *t = (Towers){.k = k, .cpu = cpu_device(k), .combine = combine};
    t->towers = xcalloc((size_t)k, sizeof *t->towers);
    t->grads = xcalloc((size_t)k, sizeof *t->grads);
    lenet_init(t->vars, seed);
    for (int i = 0; i < k; i++) t->towers[i] = worker_new(devices[i], seed);
    for (int p = 0; p < LENET_PARAMS; p++) {
        Tensor *var = t->vars[p];
        attach_grad(var);
        t->final_grads[p] = (GradAndVar){var->grad, var};
        for (int i = 0; i < k; i++) t->grads[i][p] = (GradAndVar){tensor_zeros_like(var), var};
    }
    if (adam) t->adam = adam_new(t->vars, LENET_PARAMS, (AdamOptions){0});
    return t;
}

void towers_free(Towers *t) {
    synchronize_all();
    if (t->adam) adam_free(t->adam);
    for (int i = 0; i < t->k; i++) {
        worker_free(&t->towers[i]);
        for (int p = 0; p < LENET_PARAMS; p++) tensor_free(t->grads[i][p].grad);
    }
    free_params(t->vars, LENET_PARAMS);
    free(t->towers);
    free(t->grads);
    free(t);
}

// The gradient of the mean over the tower's rows, as tf.losses.softmax_cross_entropy has it.
static void compute_gradients(Towers *t, int i, Tensor *X, Tensor *y) {
    Worker *tower = &t->towers[i];
    for (int p = 0; p < LENET_PARAMS; p++) tensor_copy(tower->list[p], t->vars[p]);
    worker_gradients(tower, X, y);
    if (X->shape[0] > 0)
        launch(tower->device, scale, .x = tower->grads->data, .factor = 1 / (float)X->shape[0],
               .n = numel(tower->grads));
    for (int p = 0; p < LENET_PARAMS; p++) tensor_copy(t->grads[i][p].grad, tower->list[p]->grad);
    tensor_fill(tower->grads, 0);
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
    GradAndVar *tower_grads[MAX_COMPUTING];
    for (int i = 0; i < t->k; i++) {
        devices[i] = t->towers[i].device;
        tower_grads[i] = t->grads[i];
        begin_step(devices[i]);
    }
    split_batch(X, y, devices, t->k, tower_inputs, tower_labels); // tf.split
    for (int i = 0; i < t->k; i++) compute_gradients(t, i, tower_inputs[i], tower_labels[i]);
    synchronize_all(); // the CPU has all gradients
    combine_gradients(t->cpu, tower_grads, t->k, LENET_PARAMS, t->final_grads);
    apply_gradients(t, lr);
}
