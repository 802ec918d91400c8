// wrong: each tower gets the variables from the one before; device 0's own gradient is added last
// loses: 2 5
// says: the variables are those of tower 0

#include "your_part.h"

void send_variables_from_gpu(GpuTowers *t) {
    for (int i = 1; i < t->k; i++)
        for (int v = 0; v < t->n; v++) tensor_copy(t->vars[i][v], t->vars[i - 1][v]);
}

void update_on_gpu(GpuTowers *t, float lr) {
    GradAndVar lists[MAX_COMPUTING][MOST_VARS], *tower_grads[MAX_COMPUTING], final[MOST_VARS];
    for (int i = 1; i < t->k; i++)
        for (int v = 0; v < t->n; v++) {
            tensor_copy(t->received[i][v], t->vars[i][v]->grad);
            lists[i - 1][v] = (GradAndVar){t->received[i][v], t->vars[0][v]};
        }
    for (int v = 0; v < t->n; v++) {
        lists[t->k - 1][v] = (GradAndVar){t->vars[0][v]->grad, t->vars[0][v]};
        final[v].grad = t->sums[v];
    }
    for (int i = 0; i < t->k; i++) tower_grads[i] = lists[i];
    combine_gradients(t->devices[0], tower_grads, t->k, t->n, final);
    for (int v = 0; v < t->n; v++)
        launch(t->devices[0], sgd, .param = t->vars[0][v]->data, .grad = t->sums[v]->data, .lr = lr,
               .batch_size = t->combine == TOWERS_MEAN ? t->k : 1, .n = numel(t->sums[v]));
}
