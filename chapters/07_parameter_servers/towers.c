// towers.c: variables on the CPU, a tower on each device.
//
// In TensorFlow 1, a host's CPU can be the only server for its GPUs. Training is then synchronous.
// Each GPU has a copy of the model, called a *tower*. The CPU sends all variables and combines all
// gradients.
//
// Each tower's loss is the *mean* over its images. `combine_gradients()`, from an article
// ("Distributed training of deep learning, part 1"), adds up the gradients of k towers, as if the
// learning rate were k times larger. (TensorFlow's own example takes their mean.) But the article
// uses Adam, which divides a gradient by its size, so the factor k nearly cancels (the program's
// last table). So Adam hides this mistake until you change the optimizer.
#include "towers.h"

#include "common/tensor/functional.h"
#include "chapters/03_split_batch/split_batch.h"

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

// As tf.losses.softmax_cross_entropy has it.
static void gradient_of_mean(Worker *tower, Tensor *X, Tensor *y) {
    worker_gradients(tower, X, y);
    if (X->shape[0] > 0)
        launch(tower->device, scale, .x = tower->grads->data, .factor = 1 / (float)X->shape[0],
               .n = numel(tower->grads));
}

static void list_gradients(Worker *worker, GradAndVar list[]) {
    for (int p = 0; p < LENET_PARAMS; p++)
        list[p] = (GradAndVar){worker->list[p]->grad, worker->list[p]};
}

void towers_gradients(Worker *vars, Worker towers[], Worker fetched[], int k, const Tensor *X,
                      const Tensor *y) {
    Tensor *tower_inputs[MAX_COMPUTING], *tower_labels[MAX_COMPUTING];
    Device *devices[MAX_COMPUTING] = {0};
    GradAndVar lists[MAX_COMPUTING][LENET_PARAMS], *tower_grads[MAX_COMPUTING];
    GradAndVar final_grads[LENET_PARAMS];
    for (int i = 0; i < k; i++) devices[i] = towers[i].device;
    for (int i = 0; i < k; i++) begin_step(devices[i]);
    split_batch(X, y, devices, k, tower_inputs, tower_labels); // tf.split
    for (int i = 0; i < k; i++) {
        tensor_copy(towers[i].params, vars->params);
        gradient_of_mean(&towers[i], tower_inputs[i], tower_labels[i]);
        tensor_copy(fetched[i].grads, towers[i].grads);
        tensor_fill(towers[i].grads, 0);
        list_gradients(&fetched[i], lists[i]);
        tower_grads[i] = lists[i];
    }
    list_gradients(vars, final_grads);
    synchronize_all(); // the CPU has all gradients
    combine_gradients(vars->device, tower_grads, k, LENET_PARAMS, final_grads);
    synchronize_all();
}
