// wrong: gradients go to the CPU and are combined there, as in the chapter; the sums come back
// loses: 4
// says: detour by way of the host

#include "your_part.h"

void send_variables_from_gpu(GpuTowers *t) {
    for (int v = 0; v < t->n; v++)
        for (int i = 1; i < t->k; i++) tensor_copy(t->vars[i][v], t->vars[0][v]);
}

// The sum of all towers' gradients of one variable, on the host.
static void sum_on_host(GpuTowers *t, int v, Tensor *sum, Tensor *arrived) {
    tensor_fill(sum, 0);
    for (int i = 0; i < t->k; i++) {
        tensor_copy(arrived, t->vars[i][v]->grad);
        synchronize_all();
        for (size_t j = 0; j < numel(sum); j++) sum->data[j] += arrived->data[j];
    }
}

void update_on_gpu(GpuTowers *t, float lr) {
    int batch_size = t->combine == TOWERS_MEAN ? t->k : 1;
    for (int v = 0; v < t->n; v++) {
        Tensor *var = t->vars[0][v];
        Tensor *sum = tensor_of_shape(host(), var->ndim, var->shape);
        Tensor *arrived = tensor_of_shape(host(), var->ndim, var->shape);
        sum_on_host(t, v, sum, arrived);
        tensor_copy(t->sums[v], sum);
        launch(t->devices[0], sgd, .param = var->data, .grad = t->sums[v]->data, .lr = lr,
               .batch_size = batch_size, .n = numel(var));
        synchronize_all();
        tensor_free(sum);
        tensor_free(arrived);
    }
}
