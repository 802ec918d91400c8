// adam.c: two moving averages for each parameter, and one kernel that updates all three.
#include "adam.h"
#include "common/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// How much of the moving averages stays.
static const float BETA1 = 0.9f, BETA2 = 0.999f;

struct Adam {
    int num_params;
    Tensor **params, **mean, **square; // moving averages of the gradient, and of its square
    AdamOptions options;
    long steps;
};

Adam *adam_new(Tensor *const params[], int num_params, AdamOptions options) {
    Adam *adam = xcalloc(1, sizeof *adam);
    size_t bytes = sizeof *params * (size_t)num_params;
    *adam = (Adam){.num_params = num_params, .options = options};
    if (options.eps == 0) adam->options.eps = 1e-8f;
    adam->params = xmalloc(bytes);
    adam->mean = xmalloc(bytes);
    adam->square = xmalloc(bytes);
    memcpy(adam->params, params, bytes);
    for (int i = 0; i < num_params; i++) {
        CHECK(params[i]->grad, "adam: attach_grad() to each parameter first");
        adam->mean[i] = tensor_zeros_like(params[i]);
        adam->square[i] = tensor_zeros_like(params[i]);
    }
    return adam;
}

void adam_free(Adam *adam) {
    for (int i = 0; i < adam->num_params; i++) {
        tensor_free(adam->mean[i]);
        tensor_free(adam->square[i]);
    }
    free(adam->params);
    free(adam->mean);
    free(adam->square);
    free(adam);
}

void adam_step(Adam *adam, float lr, int batch_size) {
    CHECK(batch_size > 0, "adam: a minibatch has at least one row");
    double steps = (double)++adam->steps;
    float rate = (float)((double)lr / (1 - pow((double)BETA1, steps)));
    float root = (float)sqrt(1 - pow((double)BETA2, steps));
    for (int i = 0; i < adam->num_params; i++) {
        Tensor *p = adam->params[i];
        launch(p->device, adam, .param = p->data, .grad = p->grad->data,
               .mean = adam->mean[i]->data, .square = adam->square[i]->data, .rate = rate,
               .root = root, .beta1 = BETA1, .beta2 = BETA2, .eps = adam->options.eps,
               .batch_size = batch_size, .n = numel(p));
    }
}

AdamState adam_state(Adam *adam, int p) {
    return (AdamState){adam->mean[p], adam->square[p], &adam->steps};
}
