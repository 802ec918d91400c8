// solution.c: exercise 2, without the three mistakes.
#include "your_part.h"

// s->own[p][i] is what device i keeps of parameter p: part i, or all of it if the parameter is too
// small to be divided (sharded.h).

// Assembles s->params from the parts in s->own. (s->params has separate memory here.)
void gather(Sharded *s) {
    for (int p = 0; p < s->n; p++)
        if (s->divided[p]) all_gather(s->params[p], s->own[p], s->k);
}

// Computes s->own_grads. For what a device keeps, these are the gradients summed over all devices.
void reduce_gradients(Sharded *s) {
    for (int p = 0; p < s->n; p++) {
        if (s->divided[p]) reduce_scatter(s->own_grads[p], s->grads[p], s->received[p], s->k);
        if (!s->divided[p]) allreduce(s->own_grads[p], s->k);
    }
}

// Updates what each device keeps, and sets all gradients to zero.
void update(Sharded *s, float lr, int batch_size) {
    for (int p = 0; p < s->n; p++)
        for (int i = 0; i < s->k; i++) {
            momentum_step(s->own[p][i], s->own_grads[p][i], s->moments[p][i], lr,
                          1 / (float)batch_size);
            tensor_fill(s->grads[p][i], 0);
        }
}

// Makes a step with the minibatch X, y; compute_gradients() uses s->params. Returns the mean loss,
// from before the update.
float train_step(Sharded *s, const Tensor *X, const Tensor *y, float lr) {
    gather(s); // new parameters
    float loss = compute_gradients(s, X, y);
    reduce_gradients(s);
    update(s, lr, X->shape[0]);
    return loss;
}

// Continues from a saved training run, possibly on another number of devices.
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
    gather(s);
}
