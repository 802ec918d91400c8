// wrong: the sum is divided by the number of towers, also where the sum itself is asked for
// loses: 3 5
// says: always divided by k

#include "your_part.h"

void send_variables_from_gpu(GpuTowers *t) {
    for (int i = 1; i < t->k; i++)
        for (int v = 0; v < t->n; v++) tensor_copy(t->vars[i][v], t->vars[0][v]);
}

void update_on_gpu(GpuTowers *t, float lr) {
    Device *first = t->devices[0];
    for (int v = 0; v < t->n; v++) {
        Tensor *sum = t->sums[v];
        tensor_copy(sum, t->vars[0][v]->grad);
        for (int i = 1; i < t->k; i++) {
            tensor_copy(t->received[i][v], t->vars[i][v]->grad);
            launch(first, add, .y = sum->data, .x = t->received[i][v]->data, .n = numel(sum));
        }
        launch(first, sgd, .param = t->vars[0][v]->data, .grad = sum->data, .lr = lr,
               .batch_size = t->k, .n = numel(sum));
    }
}
