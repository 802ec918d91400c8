// solution.c: exercise 2, without the three mistakes.
#include "your_part.h"

void gather(Sharded *s) {
    for (int p = 0; p < s->n; p++)
        if (s->divided[p]) all_gather(s->params[p], s->own[p], s->k);
}

void reduce_gradients(Sharded *s) {
    for (int p = 0; p < s->n; p++) {
        if (s->divided[p]) reduce_scatter(s->own_grads[p], s->grads[p], s->received[p], s->k);
        if (!s->divided[p]) allreduce(s->own_grads[p], s->k);
    }
}

void update(Sharded *s, float lr, int batch_size) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < s->k; i++) {
            momentum_step(s->own[p][i], s->own_grads[p][i], s->moments[p][i], lr,
                          1 / (float)batch_size);
            tensor_fill(s->grads[p][i], 0);
        }
}

float train_step(Sharded *s, const Tensor *X, const Tensor *y, float lr) {
    gather(s);
    float loss = compute_gradients(s, X, y);
    reduce_gradients(s);
    update(s, lr, X->shape[0]);
    return loss;
}

void load(Sharded *s, const Saved *saved) {
    for (int p = 0; p < s->n; p++) {
        const float *params = saved->params[p], *moments = saved->moments[p];
        for (int i = 0; i < s->k; i++) {
            tensor_write(s->own[p][i], params);
            tensor_write(s->moments[p][i], moments);
            if (!s->divided[p]) continue;
            params += numel(s->own[p][i]);
            moments += numel(s->own[p][i]);
        }
    }
}
