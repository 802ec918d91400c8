// worker.c: see worker.h.
#include "worker.h"

#include "common/base/error.h"
#include "common/tensor/autograd.h"
#include "chapters/02_get_params_and_allreduce/get_params.h"

#include <math.h>
#include <stdlib.h>

size_t lenet_first(int p) {
    static size_t first[LENET_PARAMS + 1];
    Tensor *params[LENET_PARAMS];
    if (first[LENET_PARAMS] > 0) return first[p];
    lenet_init(params, 0);
    for (int i = 0; i < LENET_PARAMS; i++) first[i + 1] = first[i] + numel(params[i]);
    free_params(params, LENET_PARAMS);
    return first[p];
}

size_t lenet_floats(void) { return lenet_first(LENET_PARAMS); }

Worker worker_new(Device *device, uint64_t seed) {
    Worker w = {.device = device};
    Tensor *start[LENET_PARAMS];
    int n = (int)lenet_floats();
    w.params = tensor_new(device, n);
    w.grads = tensor_new(device, n);
    tensor_fill(w.grads, 0);
    lenet_init(start, seed);
    for (int p = 0; p < LENET_PARAMS; p++) {
        w.list[p] = tensor_slice(w.params, lenet_first(p), start[p]->ndim, start[p]->shape);
        w.list[p]->name = start[p]->name;
        attach_grad_at(w.list[p], w.grads, lenet_first(p));
        tensor_copy(w.list[p], start[p]);
    }
    free_params(start, LENET_PARAMS);
    return w;
}

void worker_free(Worker *w) {
    free_params(w->list, LENET_PARAMS);
    tensor_free(w->params);
    tensor_free(w->grads);
}

Tensor *worker_gradients(Worker *w, Tensor *X, Tensor *y) {
    Tensor *loss = sum(cross_entropy(lenet(X, w->list), y));
    backward(loss);
    return loss;
}

float *scaled_params(uint64_t seed) {
    Tensor *start[LENET_PARAMS];
    float *params = xmalloc(sizeof *params * lenet_floats());
    lenet_init(start, seed);
    for (int p = 0; p < LENET_PARAMS; p++) {
        int n = (int)numel(start[p]); // shape (in, out), or (out, in, 5, 5); biases are zero
        int inputs = n / start[p]->shape[start[p]->ndim == 2];
        float *values = tensor_values(start[p]);
        for (int i = 0; i < n; i++) // lenet_init()'s standard deviation is 0.01
            params[lenet_first(p) + (size_t)i] = 100 * sqrtf(2 / (float)inputs) * values[i];
        free(values);
        tensor_free(start[p]);
    }
    return params;
}
