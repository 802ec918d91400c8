// adam.h: the optimizer Adam, as torch.optim.Adam. Kingma and Ba, "Adam: a method for stochastic
// optimization", ICLR 2015. As there, betas are 0.9 and 0.999. (Plain gradient descent is sgd() of
// functional.h.)
#pragma once

#include "tensor.h"

typedef struct AdamOptions {
    float eps; // if 0: 1e-8
} AdamOptions;

typedef struct Adam Adam;

// An optimizer for these parameters, which need gradients and may be on any devices. The moving
// averages begin at 0 and are on the parameters' devices. adam_free() it.
Adam *adam_new(Tensor *const params[], int num_params, AdamOptions options);
void adam_free(Adam *adam);

// Updates the parameters from their gradients, which are sums over batch_size rows, and sets the
// gradients to zero. Enqueued.
void adam_step(Adam *adam, float lr, int batch_size);

// What is known of the p-th parameter, to be read and written: the moving averages of its gradient
// and of its gradient's square, and the number of steps, which all have in common. PyTorch's
// optimizer.state_dict() has the same names.
typedef struct AdamState {
    Tensor *exp_avg, *exp_avg_sq;
    long *step;
} AdamState;
AdamState adam_state(Adam *adam, int p);
